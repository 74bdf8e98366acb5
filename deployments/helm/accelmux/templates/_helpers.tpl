{{- define "accelmux.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "accelmux.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "accelmux.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "accelmux.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "accelmux.selectorLabels" -}}
app.kubernetes.io/name: {{ include "accelmux.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "accelmux.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{ include "accelmux.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "accelmux.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "accelmux.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "accelmux.image" -}}
{{- $repository := required "image.repository is needed: there is no public image yet, so build deployments/docker/Dockerfile and say where the nodes find it" .Values.image.repository }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* The node configuration: a text as it is, a mapping as YAML. */}}
{{- define "accelmux.config" -}}
{{- $config := required "config is needed: the node configuration, such as in the chart's examples/mock.yaml" .Values.config }}
{{- if kindIs "string" $config }}
{{- $config }}
{{- else }}
{{- toYaml $config }}
{{- end }}
{{- end }}

{{- /* The configuration's profiles as JSON, each with the backends and the resources that are mappings.
What does not have the form of a configuration is the agent's to refuse. */}}
{{- define "accelmux.profiles" -}}
{{- $config := .Values.config }}
{{- if kindIs "string" $config }}
{{- $config = fromYaml $config }}
{{- end }}
{{- $found := list }}
{{- $profiles := ternary $config dict (kindIs "map" $config) | dig "profiles" list }}
{{- range $profile := ternary $profiles list (kindIs "slice" $profiles) }}
{{- $has := dict }}
{{- range $field := list "backends" "resources" }}
{{- $all := ternary $profile dict (kindIs "map" $profile) | dig $field list }}
{{- $maps := list }}
{{- range $one := ternary $all list (kindIs "slice" $all) }}
{{- if kindIs "map" $one }}
{{- $maps = append $maps $one }}
{{- end }}
{{- end }}
{{- $_ := set $has $field $maps }}
{{- end }}
{{- $found = append $found $has }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* "true" if a resource of the configuration has a parameter that may come from the
pod, which the agent then reads. */}}
{{- define "accelmux.readsPods" -}}
{{- $reads := false }}
{{- range $profile := include "accelmux.profiles" . | fromJsonArray }}
{{- range $resource := $profile.resources }}
{{- range $parameter := ternary $resource.parameters dict (kindIs "map" $resource.parameters) }}
{{- if kindIs "map" $parameter }}
{{- if or $parameter.annotation $parameter.env }}
{{- $reads = true }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if $reads }}true{{ end }}
{{- end }}

{{- /* The names of the resources with api: dra, each with the drivers that serve it in any
profile, as JSON. */}}
{{- define "accelmux.claimed" -}}
{{- $claimed := dict }}
{{- range $profile := include "accelmux.profiles" . | fromJsonArray }}
{{- range $resource := $profile.resources }}
{{- if eq (toString $resource.api) "dra" }}
{{- $name := toString $resource.name }}
{{- $drivers := get $claimed $name | default list }}
{{- range $backend := $profile.backends }}
{{- if or (not $resource.backend) (eq (toString $resource.backend) (toString $backend.name)) }}
{{- $dra := ternary $backend.dra dict (kindIs "map" $backend.dra) }}
{{- $drivers = append $drivers ($dra.driver | default (printf "%v.accelmux.io" $backend.name)) }}
{{- end }}
{{- end }}
{{- $_ := set $claimed $name ($drivers | uniq | sortAlpha) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $claimed }}
{{- end }}

{{- /* "true" if the agents need what dynamic resource allocation takes. */}}
{{- define "accelmux.dra" -}}
{{- $claimed := include "accelmux.claimed" . | fromJson }}
{{- if and $claimed (eq (toString .Values.dra.enabled) "false") }}
{{- fail (printf "dra.enabled is false, and config has resources with api: dra: %s" (keys $claimed | sortAlpha | join ", ")) }}
{{- end }}
{{- if or $claimed .Values.dra.enabled }}true{{ end }}
{{- end }}

{{- /* The name of the DeviceClass of a resource: gpu.example.com for example.com/gpu. "" for a
name that is known on the node only, as it has placeholders, or that is too long for an attribute of
a device. */}}
{{- define "accelmux.className" -}}
{{- if and (regexMatch "^[^/{}]+/[^/{}]+$" .) (le (len .) 64) }}
{{- $parts := splitn "/" 2 . }}
{{- printf "%s.%s" $parts._1 $parts._0 | lower | replace "_" "-" }}
{{- end }}
{{- end }}

{{- /* The affinity as given, or that with the nodes that have a PCI device of the
vendors. Terms are alternatives: NFD names the class in its labels or not,
depending on its own configuration. */}}
{{- define "accelmux.affinity" -}}
{{- $affinity := deepCopy .Values.affinity }}
{{- with .Values.nodeFeatureDiscovery }}
{{- if .pciVendors }}
{{- if hasKey $affinity "nodeAffinity" }}
{{- fail "affinity.nodeAffinity and nodeFeatureDiscovery.pciVendors both say which nodes: set only one of them" }}
{{- end }}
{{- $terms := list }}
{{- range $vendor := .pciVendors }}
{{- $labels := list (printf "pci-%s.present" $vendor) }}
{{- range $class := $.Values.nodeFeatureDiscovery.pciClasses }}
{{- $labels = append $labels (printf "pci-%s_%s.present" $class $vendor) }}
{{- end }}
{{- range $label := $labels }}
{{- $terms = append $terms (dict "matchExpressions" (list (dict "key" (printf "feature.node.kubernetes.io/%s" $label) "operator" "In" "values" (list "true")))) }}
{{- end }}
{{- end }}
{{- $_ := set $affinity "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) }}
{{- end }}
{{- end }}
{{- if $affinity }}
{{- toYaml $affinity }}
{{- end }}
{{- end }}

{{- /* How the agents are scraped; the node is what people ask by. */}}
{{- define "accelmux.scrape" -}}
- port: metrics
  # pod, namespace and container of what a device measures are those of its holder.
  honorLabels: true
  {{- with .interval }}
  interval: {{ . | quote }}
  {{- end }}
  {{- with .scrapeTimeout }}
  scrapeTimeout: {{ . | quote }}
  {{- end }}
  relabelings:
    - {sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node}
{{- end }}

{{- /* The mounts of the programs of extraBackends, and of what the agent reads of them before it starts them. */}}
{{- define "accelmux.extraPrograms" -}}
{{- range $backend := .Values.extraBackends }}
{{- $files := list $backend.program (printf "%s.yaml" $backend.program) }}
{{- range $backend.files }}
{{- $files = append $files (printf "%s.%s" $backend.program .) }}
{{- end }}
{{- range $files }}
- {name: backends, mountPath: {{ printf "/usr/libexec/accelmux/%s" . }}, subPath: {{ . }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- /* With nvidiaClient: the directory of the node that has the run directories of its agents, by the names of their pods. */}}
{{- define "accelmux.runDirs" -}}
/run/accelmux/pods
{{- end }}

{{- /* The containers of backends with rights of their own. */}}
{{- define "accelmux.backendContainers" -}}
{{- range $name, $own := .Values.backendContainers }}
{{- $security := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
{{- if (($own.securityContext).privileged) }}
{{- $security = dict "readOnlyRootFilesystem" true }}
{{- end }}
- name: {{ printf "backend-%s" $name }}
  image: {{ include "accelmux.image" $ | quote }}
  imagePullPolicy: {{ $.Values.image.pullPolicy }}
  command: [/usr/bin/accelmux]
  args:
    - launcher
    - {{ printf "--program=accelmux-backend-%s" $name }}
    - {{ printf "--socket=/run/accelmux-backends/%s/shared/launcher.sock" $name }}
    - --backend-dir=/usr/libexec/accelmux
    - --log-level={{ $.Values.log.level }}
    - --log-format={{ $.Values.log.format }}
  terminationMessagePath: {{ printf "/run/accelmux-backends/%s/termination-log" $name }}
  terminationMessagePolicy: FallbackToLogsOnError
  {{- with $own.env }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml (mergeOverwrite $security (default dict $own.securityContext)) | nindent 4 }}
  resources:
    {{- toYaml (default $.Values.resources $own.resources) | nindent 4 }}
  volumeMounts:
    - {name: {{ printf "backend-%s" $name }}, mountPath: {{ printf "/run/accelmux-backends/%s" $name }}}
    # What it stores, and nothing of the agent's state.
    - {name: state, mountPath: {{ printf "/var/lib/accelmux/backends/%s" $name }}, subPath: {{ printf "backends/%s" $name }}}
    - {name: dev, mountPath: /host/dev, readOnly: true}
    - {name: sys, mountPath: /host/sys, readOnly: true}
    {{- with include "accelmux.extraPrograms" $ | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with $own.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
{{- end }}

{{- /* The containers that copy the programs of extraBackends to the volume backends. */}}
{{- define "accelmux.extraBackends" -}}
{{- range $index, $backend := .Values.extraBackends }}
- name: backend-{{ $index }}
  image: {{ $backend.image | quote }}
  imagePullPolicy: {{ $.Values.image.pullPolicy }}
  {{- with $backend.command }}
  command:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $backend.args }}
  args:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationMessagePolicy: FallbackToLogsOnError
  # The pod's user, so that the program belongs to it; no other rights.
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 128Mi}
  volumeMounts:
    - {name: backends, mountPath: /backends}
{{- end }}
{{- end }}

{{- define "accelmux.webhookName" -}}
{{- printf "%s-webhook" (include "accelmux.fullname" . | trunc 55 | trimSuffix "-") }}
{{- end }}

{{- /* Not the agent's, so that no selector of the agent's pods matches these. */}}
{{- define "accelmux.webhookSelectorLabels" -}}
app.kubernetes.io/name: {{ include "accelmux.webhookName" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "accelmux.webhookLabels" -}}
{{- include "accelmux.labels" . }}
app.kubernetes.io/component: webhook
{{- end }}

{{- define "accelmux.configCheckName" -}}
{{- printf "%s-config-check" (include "accelmux.fullname" . | trunc 50 | trimSuffix "-") }}
{{- end }}

{{- define "accelmux.configCheckLabels" -}}
{{- include "accelmux.labels" . }}
app.kubernetes.io/component: config-check
{{- end }}
