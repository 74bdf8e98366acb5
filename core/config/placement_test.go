package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Verifies that a selector matches as in Kubernetes.
func TestNodeSelectorMatches(t *testing.T) {
	node := map[string]string{"accelerator": "gpu", "zone": "a", "empty": "", "annotation:example.com/mode": "region", "annotation:zone": "b"}
	annotation := func(key, value string) *NodeSelector {
		return &NodeSelector{MatchAnnotations: map[string]string{key: value}, MatchLabels: map[string]string{"zone": "a"}}
	}
	expression := func(key string, operator NodeOperator, values ...string) *NodeSelector {
		return &NodeSelector{MatchExpressions: []NodeRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	for name, tc := range map[string]struct {
		selector *NodeSelector
		want     bool
	}{
		"none":                   {nil, false},
		"a label":                {&NodeSelector{MatchLabels: map[string]string{"accelerator": "gpu"}}, true},
		"another value":          {&NodeSelector{MatchLabels: map[string]string{"accelerator": "fpga"}}, false},
		"a missing label":        {&NodeSelector{MatchLabels: map[string]string{"missing": ""}}, false},
		"one of two labels":      {&NodeSelector{MatchLabels: map[string]string{"accelerator": "gpu", "zone": "b"}}, false},
		"In":                     {expression("zone", NodeIn, "b", "a"), true},
		"NotIn":                  {expression("zone", NodeNotIn, "b"), true},
		"NotIn, the same":        {expression("zone", NodeNotIn, "a"), false},
		"NotIn, a missing label": {expression("missing", NodeNotIn, "a"), true},
		"Exists":                 {expression("empty", NodeExists), true},
		"Exists, missing":        {expression("missing", NodeExists), false},
		"DoesNotExist":           {expression("missing", NodeDoesNotExist), true},
		"DoesNotExist, there":    {expression("zone", NodeDoesNotExist), false},
		"an annotation":          {annotation("example.com/mode", "region"), true},
		"another annotation":     {annotation("example.com/mode", "af"), false},
		"a missing annotation":   {annotation("empty", ""), false},
		"a label's namesake":     {annotation("zone", "b"), true},
		"both, one fails": {&NodeSelector{
			MatchLabels:      map[string]string{"accelerator": "gpu"},
			MatchExpressions: []NodeRequirement{{Key: "zone", Operator: NodeIn, Values: []string{"b"}}},
		}, false},
	} {
		if got := tc.selector.Matches(node); got != tc.want {
			t.Errorf("%s: matches %v, want %v", name, got, tc.want)
		}
	}
}

// Verifies that every field of a nodeSelector arrives.
func TestPlacement(t *testing.T) {
	c, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Profiles, func(p Profile) bool { return p.Name == "bare" })
	want := &NodeSelector{
		MatchLabels:      map[string]string{"example.com/accelerator": "fpga", "plain": ""},
		MatchAnnotations: map[string]string{"example.com/mode": "region"},
		MatchExpressions: []NodeRequirement{
			{Key: "zone", Operator: NodeNotIn, Values: []string{"a", "b"}},
			{Key: "feature.node.kubernetes.io/pci-1200_8086.present", Operator: NodeExists},
		},
	}
	if diff := cmp.Diff(want, c.Profiles[i].NodeSelector); diff != "" {
		t.Errorf("nodeSelector (-want +got):\n%s", diff)
	}
	if got := c.Profiles[i].Priority; got != -10 {
		t.Errorf("priority %d, want -10", got)
	}
	if p := c.Profiles[0]; p.NodeSelector != nil || p.Priority != 0 {
		t.Errorf("without a nodeSelector: %+v, priority %d, want none", p.NodeSelector, p.Priority)
	}
}

// Verifies what the operator reads of a selector that cannot work.
func TestPlacementRefused(t *testing.T) {
	const at = "profiles[0]"
	placed := func(text string) string {
		return "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- name: a\n  backends: [{name: b, featurePrefix: example.com}]\n" + text
	}
	const value = "the value of a label is letters, digits, dashes, underscores and dots, with a letter or digit at both ends, at most 63, is "
	const loop = " is a label that the backends of a profile cause; it cannot select the profile: use a label of your own, such as accelmux.io/profile"
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"annotations": {"  nodeSelector:\n    matchAnnotations:\n      a: b c\n", []string{
			`node.yaml:8: ` + at + `.nodeSelector.matchAnnotations.a: ` + value + `"b c"`,
		}},
		"value": {"  nodeSelector:\n    matchLabels:\n      a: b c\n    matchExpressions:\n    - {key: d, operator: In, values: [e, -f]}\n", []string{
			`node.yaml:8: ` + at + `.nodeSelector.matchLabels.a: ` + value + `"b c"`,
			`node.yaml:10: ` + at + `.nodeSelector.matchExpressions[0].values[1]: ` + value + `"-f"`,
		}},
		"operators": {"  nodeSelector:\n    matchExpressions:\n    - {key: d, operator: in, values: [e]}\n    - {key: d, operator: In}\n    - {key: d, operator: Exists, values: [e]}\n    - {values: [e]}\n", []string{
			`node.yaml:8: ` + at + `.nodeSelector.matchExpressions[0].operator: must be one of In, NotIn, Exists, DoesNotExist, is "in"; did you mean "In"?`,
			`node.yaml:9: ` + at + `.nodeSelector.matchExpressions[1].values: at least one value is required with the operator In`,
			`node.yaml:10: ` + at + `.nodeSelector.matchExpressions[2].values: must not be given with the operator Exists`,
			`node.yaml:11: ` + at + `.nodeSelector.matchExpressions[3].key: is required, the name of a label`,
			`node.yaml:11: ` + at + `.nodeSelector.matchExpressions[3].operator: is required: In, NotIn, Exists or DoesNotExist`,
		}},
		"feature": {"  nodeSelector:\n    matchLabels: {mock.accelmux.io/gpu.count: \"8\", accelmux.io/profile: gpu}\n    matchExpressions:\n    - {key: mock.accelmux.io/gpu.model, operator: Exists}\n", []string{
			`node.yaml:7: ` + at + `.nodeSelector.matchLabels["mock.accelmux.io/gpu.count"]: "mock.accelmux.io/gpu.count"` + loop,
			`node.yaml:9: ` + at + `.nodeSelector.matchExpressions[0].key: "mock.accelmux.io/gpu.model"` + loop,
		}},
		"feature of another prefix": {"  nodeSelector: {matchLabels: {example.com/gpu.count: \"8\"}}\n", []string{
			`node.yaml:6: ` + at + `.nodeSelector.matchLabels["example.com/gpu.count"]: "example.com/gpu.count"` + loop,
		}},
		"priority": {"  nodeSelector: {}\n  priority: 1000001\n", []string{
			`node.yaml:7: ` + at + `.priority: must be between -1000000 and 1000000, is 1000001`,
		}},
		"priority of nothing": {"  priority: 1\n", []string{
			`node.yaml:6: ` + at + `.priority: has a meaning only with a nodeSelector`,
		}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, placed(tc.in), tc.want...) })
	}
	_, err := Parse("node.yaml", []byte(placed("  nodeSelector: {matchLabels: {a/b/c: d}}\n")))
	if want := `node.yaml:6: ` + at + `.nodeSelector.matchLabels["a/b/c"]: "a/b/c" is not the name of a label, such as example.com/accelerator: `; err == nil || !strings.HasPrefix(withoutColumns(err), want) {
		t.Errorf("a bad key gives %v, want %s", err, want)
	}
}
