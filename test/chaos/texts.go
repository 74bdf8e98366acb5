package main

import (
	"fmt"
	"strings"
)

// configuration is the node's, as the model has it: the profile of most nodes, and one
// without backend delta.
func (m *model) configuration(dir string) string {
	return "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n  - name: " + fullProfile + m.profile(dir, m.extra, m.dra) +
		fmt.Sprintf("  - name: %s\n    nodeSelector: {matchLabels: {%s: \"\"}}", leanProfile, leanLabel) + m.profile(dir, false, !m.dra)
}

const (
	fullProfile = "default"
	leanProfile = "lean"
	leanLabel   = "example.com/lean"
)

// profile is what a profile consists of. Of the backends that are not held over for long
// (beta) the loss is seen by kubelet: it is not taken for lost because the machine did not
// let it run for a second or two.
func (m *model) profile(dir string, extra, dra bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
    backends:
      - name: alpha
        settings: {count: %d, id: "a-{{.GroupIndex}}", hooks: [prepare, release], prepare: {edits: {env: {PREPARED: "{{.ID}}"}}}, scenarioFile: %[2]s/alpha.yaml, callLog: %[2]s/%[3]s}
        allow: {declared: accept, env: [PREPARED]}
        heartbeat: 500ms
        holdover: 10m
        recovery: {delay: 0s}
      - name: beta
        settings: {count: 2, id: "b-{{.GroupIndex}}", class: npu, partitions: {count: 2}, scenarioFile: %[2]s/beta.yaml}
        allow: {declared: accept}
        heartbeat: 3s
        holdover: 300ms
        recovery: {delay: 0s}
      - name: gamma
        settings: {count: 2, class: fpga, id: "c-{{.GroupIndex}}"}
        allow: {declared: accept}
      - name: epsilon
        heartbeat: 500ms
        recovery: {delay: 0s}
      - name: iota
        settings:
          scenarioFile: %[2]s/iota.yaml
          callLog: %[2]s/%[3]s
          stateFile: %[2]s/%[4]s
          devices:
            - {count: 4, id: "i-{{.GroupIndex}}", hooks: [prepare, release], prepare: {edits: {env: {PREPARED: "{{.ID}}"}}}}
            - {class: fpga, id: "p-{{.GroupIndex}}", partitions: {slices: 4, profiles: {one: 1, two: 2, four: 4}}, prepare: {delay: 100ms}}
            - {class: asic, id: %[5]s, hooks: [prepare, release], memory: %[6]d, shares: {memory: 1}}
        allow: {declared: accept, env: [PREPARED]}
        heartbeat: 500ms
        holdover: 10m
        recovery: {delay: 0s}
`, m.units, dir, callLog, madeFile, sharedDevice, sharedMemory)
	for _, v := range m.vendors {
		fmt.Fprintf(&b, "      - name: %s%s", v.name, v.vendor.config)
	}
	if extra {
		fmt.Fprintf(&b, `      - name: delta
%s        allow: {declared: accept}
        settings: {count: 2, class: asic, id: "d-{{.GroupIndex}}", scenarioFile: %s/delta.yaml}
        heartbeat: 500ms
        recovery: {delay: 0s}
`, m.pin(), dir)
	}
	fmt.Fprintf(&b, `    resources:
      - {name: %s, backend: alpha, replicas: %d}
      - {name: %s, backend: beta, injection: cdi-annotations}
      - {name: %s, backend: gamma, injection: plain, registration: watcher}
      - {name: %s, backend: epsilon}
      - {name: %s, backend: iota, class: gpu, api: %s, reset: afterUse}
`, m.name, m.replicas, partName, steadyName, wildName, draName, map[bool]string{true: "dra", false: "devicePlugin"}[dra])
	if dra {
		fmt.Fprintf(&b, "      - {name: %s, backend: iota, class: fpga, api: dra}\n", partitionsName)
		fmt.Fprintf(&b, "      - {name: %s, backend: iota, class: asic, api: dra}\n", sharesName)
	}
	for _, v := range m.vendors {
		name, _ := m.resourceOf(v)
		fmt.Fprintf(&b, "      - {name: %s, backend: %s}\n", name, v.name)
	}
	if extra {
		fmt.Fprintf(&b, "      - {name: %s, backend: delta}\n", deltaName)
	}
	return b.String()
}

// pin is the line of delta's checksum.
func (m *model) pin() string {
	if !m.pinned {
		return ""
	}
	return "        checksum: " + m.checksum + "\n"
}

// kubeconfig says where the API server is.
func kubeconfig(url string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: chaos, cluster: {server: %q}}]
users: [{name: chaos, user: {}}]
contexts: [{name: chaos, context: {cluster: chaos, user: chaos}}]
current-context: chaos
`, url)
}

// scenario is the file that a backend watches.
func (b *backend) scenario() string {
	var text strings.Builder
	text.WriteString("devices:\n")
	for _, d := range b.devices {
		if line := d.entry.yaml(); line != "" {
			fmt.Fprintf(&text, "  %s: {%s}\n", d.id, line)
		}
	}
	if text.Len() == len("devices:\n") {
		text.Reset()
	}
	if b.crash {
		text.WriteString("crash: {repeat: true}\n")
	} else if b.action != "" {
		text.WriteString(b.action + "\n")
	}
	return text.String()
}

func (e entry) yaml() string {
	var fields []string
	switch {
	case e.fault != "":
		// A reset works as soon as the fault is mended, not before; the mock's would take
		// a fault that mends itself along.
		fields = append(fields, fmt.Sprintf("fault: {code: %s, recovery: %s}, reset: {result: failed, message: not yet}", code(e.fault), e.fault))
	case e.recovered:
		fields = append(fields, "recovered: true")
	}
	if e.unplugged {
		fields = append(fields, "unplugged: true")
	}
	return strings.Join(fields, ", ")
}
