package validate

import (
	"strings"
	"testing"
)

// profiles returns a configuration with profiles that have these fields, each on one line, from the fourth.
func profiles(fields ...string) string {
	text := "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n"
	for _, f := range fields {
		text += "- {" + f + ", backends: [{name: mock}], resources: [{name: e.x/a}]}\n"
	}
	return text
}

// Verifies the whole of what is printed for what no agent refuses, and nobody means.
func TestWarnings(t *testing.T) {
	one := func(backend, resources string) string {
		return "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- name: a\n  backends:\n  - {" + backend + "}\n  resources:\n  - {" + strings.ReplaceAll(resources, "}, {", "}\n  - {") + "}\n"
	}
	for _, c := range []struct{ name, text, want string }{
		// Profiles that nodes cannot choose by their labels.
		{"two for all nodes", profiles("name: a, nodeSelector: {}", "name: b, nodeSelector: {}"),
			"5:3: profiles[1]: profile a matches the nodes of profile b, too, with the same priority 0, and then none applies: give one a higher priority"},
		{"one for some, with the priority of all", profiles("name: a, nodeSelector: {matchLabels: {gpu: a}}", "name: b, nodeSelector: {}"),
			"4:3: profiles[0]: profile b matches the nodes of profile a, too, with the same priority 0, and then none applies: give one a higher priority"},
		{"one for some, of a lower priority", profiles("name: a, nodeSelector: {matchLabels: {gpu: a, b: c}}", "name: b, nodeSelector: {matchExpressions: [{key: gpu, operator: In, values: [a]}]}, priority: 1"),
			"4:3: profiles[0]: no node gets profile a, unless --profile names it: profile b matches all of its nodes with the higher priority 1"},
		{"one for some, of a higher priority", profiles("name: a, nodeSelector: {matchLabels: {gpu: a}}, priority: 1", "name: b, nodeSelector: {}"), ""},
		{"different nodes", profiles("name: a, nodeSelector: {matchLabels: {gpu: a}}", "name: b, nodeSelector: {matchAnnotations: {gpu: a}}", "name: c, nodeSelector: {matchExpressions: [{key: gpu, operator: NotIn, values: [a]}]}", "name: default"), ""},
		{"two without a nodeSelector", profiles("name: a", "name: b"),
			"5:3: profiles[1]: the profiles a and b have no nodeSelector, and then none applies: name one of them default, or give it a nodeSelector"},
		{"one beside the default", profiles("name: a", "name: default"),
			"4:3: profiles[0]: no node gets profile a, unless --profile names it: it has no nodeSelector, and of those without one the profile default applies"},
		{"a default beside one for all nodes", profiles("name: default", "name: b, nodeSelector: {}"),
			"4:3: profiles[0]: no node gets profile default, unless --profile names it: profile b, whose nodeSelector is empty, matches every node"},

		// Fields without effect.
		{"dra without api: dra", one("name: mock, dra: {evict: true}", "name: e.x/a"), "6:18: profiles[0].backends[0].dra: dra of backend mock has no effect: no resource of profile a serves its devices with api: dra"},
		{"dra, and api: dra of another backend", one("name: mock, dra: {driver: e.x, metadata: true}}\n  - {name: nvidia", "name: e.x/a, backend: mock}, {name: e.x/b, backend: nvidia, api: dra"),
			"6:18: profiles[0].backends[0].dra: dra of backend mock has no effect: no resource of profile a serves its devices with api: dra"},
		{"dra with api: dra", one("name: mock, dra: {evict: true}", "name: e.x/a, api: dra"), ""},
		{"telemetry", one("name: mock, telemetry: {sample: never, interval: 20s}", "name: e.x/a"), "6:45: profiles[0].backends[0].telemetry.interval: telemetry.interval of backend mock has no effect with sample: never"},
		{"allocation", one("name: mock", "name: e.x/a, allocation: {policy: none, links: weakest}"), "8:46: profiles[0].resources[0].allocation.links: allocation.links of resource e.x/a has no effect with policy: none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for line := range strings.Lines(run(t, c.text).printed()) {
				if !strings.HasPrefix(line, "node.yaml: profile ") { // is valid
					got += strings.Replace(strings.TrimPrefix(line, "node.yaml:"), "warning: ", "", 1)
				}
			}
			if got = strings.TrimSuffix(got, "\n"); got != c.want {
				t.Errorf("printed\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
