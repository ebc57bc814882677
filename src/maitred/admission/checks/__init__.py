"""The checks of a manifest, one file each; all of them run, whatever the others find.

A check sees values alone: the manifest and the operator's policy. It knows no file, no line and no network.
`base` has the protocol `Check`, the policy and `decide`; forms of single keys are in `admission.manifest`.
To add a check, write one file with a `Check` and add it to the list in `maitred.admission.review`.
"""
