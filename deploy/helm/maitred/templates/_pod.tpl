{{/* The pod of a component of `root`. */}}
{{- define "maitred.pod" -}}
{{- $root := .root }}
{{- with $root.Values }}
serviceAccountName: {{ include "maitred.name" $root }}
automountServiceAccountToken: {{ .watch.enabled }}
enableServiceLinks: false
shareProcessNamespace: true # the first process of the pod reaps what servers leave behind
terminationGracePeriodSeconds: {{ .terminationGracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .fleet.enabled }}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "maitred.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
containers:
  - name: maitred
    image: {{ include "maitred.image" $root | quote }}
    imagePullPolicy: {{ .image.pullPolicy }}
    args: [serve, --transport, http, --host, 0.0.0.0]
    {{- if .fleet.enabled }}
    env:
      - name: MAITRED_ROLE
        value: {{ $.component }}
      - name: POD_IP
        valueFrom:
          fieldRef:
            fieldPath: status.podIP
      - name: MAITRED_KEY
        valueFrom:
          secretKeyRef:
            name: {{ .secret }}
            key: key
      - name: MAITRED_AUDIT_KEY
        valueFrom:
          secretKeyRef:
            name: {{ .secret }}
            key: audit-key
    {{- end }}
    ports:
      - name: http
        containerPort: 8420
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    resources:
      {{- toYaml .resources | nindent 6 }}
    startupProbe:
      httpGet:
        path: /healthz
        port: http
      periodSeconds: 2
      failureThreshold: 60
    livenessProbe:
      httpGet:
        path: /healthz
        port: http
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 3
    readinessProbe:
      httpGet:
        path: /readyz
        port: http
      periodSeconds: 5
      timeoutSeconds: 5
      failureThreshold: 60
    volumeMounts:
      - name: config
        mountPath: /etc/maitred
        readOnly: true
      - name: secret
        mountPath: /run/maitred
        readOnly: true
      - name: state
        mountPath: /var/lib/maitred
      - name: tmp
        mountPath: /tmp
volumes:
  - name: config
    configMap:
      name: {{ include "maitred.name" $root }}
  - name: secret
    secret:
      secretName: {{ .secret }}
      defaultMode: 288 # 0440 in octal, which not every reader of YAML takes for one
      items:
        - key: token
          path: token
        {{- if .fleet.enabled }}
        - key: catalog-url
          path: catalog-url
        {{- if .fleet.valkey }}
        - key: valkey-url
          path: valkey-url
        {{- end }}
        {{- end }}
  - name: state
    {{- if .fleet.enabled }}
    emptyDir:
      sizeLimit: 256Mi
    {{- else }}
    persistentVolumeClaim:
      claimName: {{ include "maitred.name" $root }}
    {{- end }}
  - name: tmp
    emptyDir:
      medium: Memory
      sizeLimit: 128Mi
{{- end }}
{{- end }}
