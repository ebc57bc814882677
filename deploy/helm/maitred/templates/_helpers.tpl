{{/* The name of everything in a release: `maitred` for a release of that name. */}}
{{- define "maitred.name" -}}
{{- ternary .Release.Name (printf "%s-maitred" .Release.Name) (contains "maitred" .Release.Name) | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* The labels by which the pods of a component are known; they never change. */}}
{{- define "maitred.selector" -}}
app.kubernetes.io/name: maitred
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The labels that the pods of all components have. */}}
{{- define "maitred.pods" -}}
app.kubernetes.io/name: maitred
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "maitred.labels" -}}
{{ include "maitred.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "maitred.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}{{ end }}
{{- end }}

{{/* Everything but the addresses by which clouds tell their machines secrets. */}}
{{- define "maitred.anywhere" -}}
- ipBlock:
    cidr: 0.0.0.0/0
    except: [169.254.0.0/16]
- ipBlock:
    cidr: ::/0
    except: ["fd00:ec2::254/128", "fe80::/10"]
{{- end }}

{{/* The name of what belongs to a component. */}}
{{- define "maitred.component" -}}
{{ include "maitred.name" .root }}{{ if eq .component "runner" }}-runner{{ end }}
{{- end }}

{{/* The components there are, with blanks between. */}}
{{- define "maitred.components" -}}
{{ ternary "gateway runner" "gateway" .Values.fleet.enabled }}
{{- end }}

{{/* What the chart adds to `config`, which may say otherwise. */}}
{{- define "maitred.additions" -}}
catalog:
{{- if .Values.fleet.enabled }}
  url: ${file:/run/maitred/catalog-url}
{{- if .Values.fleet.valkey }}
shared:
  url: ${file:/run/maitred/valkey-url}
{{- end }}
replica:
  address: http://${POD_IP}:8420
{{- else }}
  path: /var/lib/maitred/catalog.db
{{- end }}
http:
  token: ${file:/run/maitred/token}
{{- if .Values.fleet.enabled }}
  unready_s: {{ .Values.unreadySeconds }}
{{- end }}
  drain_s: {{ .Values.drainSeconds }}
{{- if .Values.watch.enabled }}
admission:
  exemptions:
    {{ .Values.watch.network }}:
      hosts: [{{ printf "*.%s.svc.cluster.local" .Values.watch.namespace | quote }}]
      addresses: {{ toJson .Values.watch.addresses }}
      reason: servers of the cluster
kubernetes:
  watch:
    namespace: {{ .Values.watch.namespace }}
    network: {{ .Values.watch.network }}
{{- end }}
{{- end }}
