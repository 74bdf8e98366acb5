package profile

import (
	"errors"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
)

// Verifies that Overruled agrees with Choose: a profile that it reports is chosen for no node, and for one that it does not
// report there is a node.
func TestOverruled(t *testing.T) {
	nodes := []map[string]string{{}, {"a": "x"}, {"a": "y"}, {"b": "x"}, {"a": "x", "b": "x"}, {config.AnnotationPrefix + "a": "x"}, {"a": "x", config.AnnotationPrefix + "a": "x"}}
	selectors := []string{"", "{}", "{matchLabels: {a: x}}", "{matchLabels: {a: x, b: x}}", "{matchAnnotations: {a: x}}",
		"{matchExpressions: [{key: a, operator: In, values: [x]}]}", "{matchExpressions: [{key: a, operator: DoesNotExist}]}",
		"{matchLabels: {a: x}, matchExpressions: [{key: a, operator: NotIn, values: [x, y]}]}", "{matchExpressions: [{key: a, operator: Exists}, {key: a, operator: NotIn, values: [x]}]}"}
	for _, first := range selectors {
		for _, second := range selectors {
			for _, names := range []string{"p q", "default q", "p default"} {
				for _, priority := range []string{"0", "1"} {
					text := "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n"
					for i, selector := range []string{first, second} {
						text += "- {backends: [{name: mock}], name: " + strings.Fields(names)[i]
						if selector != "" {
							text += ", nodeSelector: " + selector
						}
						if i == 0 && selector != "" {
							text += ", priority: " + priority
						}
						text += "}\n"
					}
					c, err := config.Parse("node.yaml", []byte(text))
					if err != nil {
						t.Fatal(err)
					}
					chosen, ties := map[string]bool{}, 0
					for _, node := range nodes {
						choice, err := Choose(c, node)
						switch {
						case err == nil:
							chosen[choice.Profile.Name] = true
						case !errors.Is(err, ErrNone):
							ties++
						}
					}
					for i := range c.Profiles {
						name, why := c.Profiles[i].Name, Overruled(c, i)
						reported := why != "" || ties > 0 && Overruled(c, 1-i) != "" // of two that tie, one
						if why != "" && chosen[name] || !reported && !chosen[name] {
							t.Errorf("%s%s: chosen %v, %d ties, %q", text, name, chosen, ties, why)
						}
					}
				}
			}
		}
	}
}
