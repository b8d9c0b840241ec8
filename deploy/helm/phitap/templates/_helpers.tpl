{{- define "phitap.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "phitap.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "phitap.labels" -}}
{{ include "phitap.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "phitap.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "phitap.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "phitap.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "phitap.modelClaim" -}}
{{- default (printf "%s-models" (include "phitap.name" .)) .Values.modelVolume.existingClaim -}}
{{- end -}}

{{/* Seconds until Kubernetes kills: the drain, 5 s for the last bytes of calls, and some for the process to end. */}}
{{- define "phitap.terminationGracePeriod" -}}
{{- $drain := add (int .Values.drain.graceSeconds) (int .Values.drain.timeoutSeconds) -}}
{{- $given := .Values.drain.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{- add $drain 15 -}}
{{- else if lt (int $given) (int (add $drain 5)) -}}
{{- fail (printf "drain.terminationGracePeriodSeconds: %d would cut off the drain of graceSeconds + timeoutSeconds = %d s; at least %d, or leave it out" (int $given) $drain (add $drain 5)) -}}
{{- else -}}
{{- int $given -}}
{{- end -}}
{{- end -}}

{{/* What the values say of each other and a schema cannot. */}}
{{- define "phitap.check" -}}
{{- if and .Values.tls.enabled (not .Values.tls.secretName) -}}
{{- fail "tls.secretName: needed where tls.enabled is true: a secret of type kubernetes.io/tls" -}}
{{- end -}}
{{- if and (ne .Values.tls.clientCertificates "none") (not .Values.tls.enabled) -}}
{{- fail "tls.clientCertificates: clients show certificates on encrypted connections alone: set tls.enabled" -}}
{{- end -}}
{{- if and (eq .Values.modelVolume.type "hostPath") (not .Values.modelVolume.hostPath) -}}
{{- fail "modelVolume.hostPath: needed where modelVolume.type is hostPath" -}}
{{- end -}}
{{- if and (eq .Values.modelVolume.type "emptyDir") (not .Values.fetch.files) -}}
{{- fail "fetch.files: an emptyDir has no checkpoint unless some are fetched" -}}
{{- end -}}
{{- if and (not .Values.models) (not .Values.modelFolder) -}}
{{- fail "models: name at least one, or set modelFolder" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (lt (int .Values.autoscaling.maxReplicas) (int .Values.autoscaling.minReplicas)) -}}
{{- fail "autoscaling.maxReplicas: less than minReplicas" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (not .Values.metrics.enabled) -}}
{{- fail "autoscaling.enabled: its metric comes from metrics.enabled" -}}
{{- end -}}
{{- $shared := has "ReadWriteMany" .Values.modelVolume.accessModes -}}
{{- $many := or (gt (int .Values.replicaCount) 1) .Values.autoscaling.enabled -}}
{{- if and $many (eq .Values.modelVolume.type "claim") (not .Values.modelVolume.existingClaim) (not $shared) -}}
{{- fail "modelVolume.accessModes: several pods share the claim: ReadWriteMany, an existingClaim, or a hostPath" -}}
{{- end -}}
{{- end -}}

{{/* The flags of phitapd, one a line. */}}
{{- define "phitap.args" -}}
- --listen=0.0.0.0:7777
{{- range .Values.models }}
- --model={{ .name }}=/models/{{ .path }}
{{- end }}
{{- if .Values.modelFolder }}
- --model-folder=/models
{{- end }}
- --state-dir=/var/lib/phitap
{{- with .Values.server.threads }}
- --threads={{ . }}
{{- end }}
- --dtype={{ .Values.server.dtype }}
- --weights={{ .Values.server.weights }}
- --log-level={{ .Values.server.logLevel }}
- --log-format=json
- --drain-grace={{ .Values.drain.graceSeconds }}s
- --drain-timeout={{ .Values.drain.timeoutSeconds }}s
{{- if .Values.metrics.enabled }}
- --metrics-listen=0.0.0.0:{{ .Values.metrics.port }}
{{- end }}
{{- if .Values.tls.enabled }}
- --tls-cert=/etc/phitap/tls/tls.crt
- --tls-key=/etc/phitap/tls/tls.key
{{- if ne .Values.tls.clientCertificates "none" }}
- --tls-client-ca=/etc/phitap/tls/ca.crt
- --tls-client-certs={{ .Values.tls.clientCertificates }}
{{- end }}
{{- else }}
- --insecure-listen=on
{{- end }}
{{- if .Values.tokens.secretName }}
- --tokens=/etc/phitap/tokens/tokens
{{- end }}
{{- with .Values.tokens.anonymousRoles }}
- --anonymous-roles={{ join "," . }}
{{- end }}
{{- with .Values.server.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Ports that fetch.files come from, as JSON; where they are moved to another address, it is by HTTPS. */}}
{{- define "phitap.fetchPorts" -}}
{{- $ports := list 443 -}}
{{- range .Values.fetch.files -}}
{{- $url := urlParse .url -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary 80 443 (eq $url.scheme "http")) | int) -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{/* What balancers and meshes may take the port's connections for. */}}
{{- define "phitap.appProtocol" -}}
{{- ternary "https" "kubernetes.io/h2c" .Values.tls.enabled -}}
{{- end -}}

{{/* How a probe asks. Kubernetes speaks gRPC without encryption only. Where clients have to show a certificate, a probe shows the server's. */}}
{{- define "phitap.readinessCheck" -}}
{{- if .Values.tls.enabled }}
exec:
  command:
    - phitap
    - health
    - --server=localhost:7777
    - --timeout=2
    - --ca=/etc/phitap/tls/ca.crt
    {{- if eq .Values.tls.clientCertificates "require" }}
    - --cert=/etc/phitap/tls/tls.crt
    - --key=/etc/phitap/tls/tls.key
    {{- end }}
    {{- with .Values.tls.serverName }}
    - --server-name={{ . }}
    {{- end }}
{{- else }}
grpc: {port: 7777}
{{- end }}
{{- end -}}
