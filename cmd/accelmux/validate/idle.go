package validate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/sandbox"
)

// idle warns of fields of a profile, whose path is at, that have no effect because of others, or are empty. No agent refuses
// them: what they go with may come later, or from another file.
func (c *check) idle(p *config.Profile, at string) {
	for i := range p.Backends {
		b, at := &p.Backends[i], fmt.Sprintf("%s.backends[%d]", at, i)
		servesDRA := slices.ContainsFunc(p.Resources, func(r config.Resource) bool { return r.API == config.APIDRA && cmp.Or(r.Backend, b.Name) == b.Name })
		if c.given(at+".dra") && !servesDRA {
			c.warn(at+".dra", "dra of backend %s has no effect: no resource of profile %s serves its devices with api: %s", b.Name, p.Name, config.APIDRA)
		}
		if c.given(at+".telemetry.interval") && b.Telemetry.Sample == config.SampleNever {
			c.warn(at+".telemetry.interval", "telemetry.interval of backend %s has no effect with sample: %s", b.Name, config.SampleNever)
		}
		for _, field := range []string{"memory", "cpuWeight"} {
			if c.given(at+".sandbox."+field) && b.Sandbox.Mode == sandbox.Off {
				c.warn(at+".sandbox."+field, "sandbox.%s of backend %s has no effect with mode: %s", field, b.Name, sandbox.Off)
			}
		}
	}
	for i := range p.Resources {
		r, at := &p.Resources[i], fmt.Sprintf("%s.resources[%d]", at, i)
		for _, limit := range []struct{ name, value string }{{"backend", r.Backend}, {"class", r.Class}, {"selector", r.Selector}} {
			if c.given(at+"."+limit.name) && limit.value == "" {
				c.warn(at+"."+limit.name, "the %s of resource %s is empty, which means all: fill it in, or leave it out", limit.name, r.Name)
			}
		}
		if c.given(at+".allocation.links") && r.Allocation.Policy == config.AllocateNone {
			c.warn(at+".allocation.links", "allocation.links of resource %s has no effect with policy: %s", r.Name, config.AllocateNone)
		}
	}
}

// given reports whether the file has a field.
func (c *check) given(field string) bool {
	_, is := c.positions[field]
	return is
}
