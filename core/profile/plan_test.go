package profile

import (
	"slices"
	"testing"

	"github.com/accelmux/accelmux/core/config"
)

// Verifies whose CDI specs an agent needs: not those of backends whose resources are all
// injected without CDI, so that it may run beside an agent that has them.
func TestDefinedBackends(t *testing.T) {
	p := &Plan{Profile: &config.Profile{
		Backends: []config.Backend{{Name: "a"}, {Name: "b"}},
		Resources: []config.Resource{
			{Name: "ex.com/a", Backend: "a", Injection: config.InjectPlain},
			{Name: "ex.com/b", Backend: "b", Injection: config.InjectAuto},
		},
	}}
	if got := p.Defined(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("backends with CDI specs are %v, want b alone", got)
	}
	p.Profile.Resources[1].Injection = config.InjectPlain
	if got := p.Defined(); len(got) != 0 {
		t.Errorf("backends with CDI specs are %v, want none", got)
	}
	p.Profile.Resources[1] = config.Resource{Name: "ex.com/all", Injection: config.InjectCDI}
	if got := p.Defined(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("backends with CDI specs are %v, want both", got)
	}
}
