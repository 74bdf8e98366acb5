package holders

import "testing"

// Verifies which uses of a device exclude each other, in whatever order they come.
func TestExclusion(t *testing.T) {
	x, y := claimOf("x"), claimOf("y")
	replica, whole := use{resource: gpu, replica: true}, use{resource: gpu}
	share, all := use{claim: &x, shared: true}, use{claim: &x}
	for name, c := range map[string]struct {
		a, b use
		want bool
	}{
		"two replicas":                       {replica, replica, false},
		"two replicas of two resources":      {replica, use{resource: "other", replica: true}, false},
		"a replica and the whole device":     {replica, whole, true},
		"the whole device, known to kubelet": {whole, whole, false},
		"the whole device of two resources":  {whole, use{resource: "other"}, true},
		"a replica and a share":              {replica, share, true},
		"the whole device and a share":       {whole, share, true},
		"a replica and a claim":              {replica, all, true},
		"the whole device and a claim":       {whole, all, true},
		"two shares":                         {share, use{claim: &y, shared: true}, false},
		"a share and a claim":                {share, use{claim: &y}, true},
		"two claims":                         {all, use{claim: &y}, true},
		"a claim and itself":                 {all, share, false},
	} {
		if got, back := c.a.excludes(c.b), c.b.excludes(c.a); got != c.want || back != c.want {
			t.Errorf("%s: %v, in the other order %v, want %v", name, got, back, c.want)
		}
	}
}
