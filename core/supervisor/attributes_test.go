package supervisor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies the bounds of declared attributes.
func TestAttributes(t *testing.T) {
	declare := func(name string, kind backendv1.AttributeKind) *backendv1.AttributeDeclaration {
		return &backendv1.AttributeDeclaration{Name: name, Kind: kind, Description: "x"}
	}
	const capacity = backendv1.AttributeKind_ATTRIBUTE_KIND_CAPACITY
	all, err := ParseAttributes([]*backendv1.AttributeDeclaration{
		declare("model", 1), declare("memory", 2), declare("memory", capacity), declare("acme_*", 0), declare("resource.kubernetes.io/pcieRoot", 1), declare("later", 99),
	})
	if err != nil || len(all) != 6 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, c := range []struct {
		name string
		kind inventory.AttributeKind
		want bool
	}{
		{"model", inventory.StringKind, true}, {"model", inventory.IntKind, false}, {"model", inventory.CapacityKind, false}, {"Model", inventory.StringKind, false},
		{"memory", inventory.IntKind, true}, {"memory", inventory.CapacityKind, true}, {"acme_x", inventory.CapacityKind, true}, {"acme_", inventory.BoolKind, true},
		{"later", inventory.BoolsKind, true}, {"later", inventory.CapacityKind, false}, {"pcieRoot", inventory.StringKind, false},
	} {
		if got := inventory.Declares(all, c.name, c.kind); got != c.want {
			t.Errorf("%s of the kind %q: %t", c.name, c.kind, got)
		}
	}

	many := make([]*backendv1.AttributeDeclaration, maxDeclarations+1)
	for i := range many {
		many[i] = declare(fmt.Sprintf("a%d", i), 1)
	}
	for want, wire := range map[string][]*backendv1.AttributeDeclaration{
		"declares 1025 attributes":             many,
		`declares the attribute "a b", which`:  {declare("a b", 1)},
		`declares the attribute "a*b", which`:  {declare("a*b", 1)},
		"declares the attribute a twice":       {declare("a", 1), declare("a", 0)},
		`describes the attribute a as "", wh`:  {{Name: "a"}},
		`describes the attribute a as "x", wh`: {{Name: "a", Description: "x\n"}},
		`describes the attribute a as "xxxxxx`: {{Name: "a", Description: strings.Repeat("x", 257)}},
	} {
		if _, err := ParseAttributes(wire); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
