package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
)

// FuzzParse verifies that no input makes Parse panic, that every refusal is a
// sorted list with a place, and that what is accepted can be written, loaded
// again and chosen from.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"testdata/full.yaml", "testdata/minimal.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(bomb()))
	f.Add([]byte(with("settings: {a: &a [1, 0x1, .5, ~, 1e9, \"0123\"], b: *a, \"true\": \"\"}\nenv: {A: b}", "selector: device.driver == 'mock'")))
	f.Add([]byte(with("nam: x\nname: y", "replicas: 3\nreplicas: 2")))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("node.yaml", data)
		if err != nil {
			var errs Errors
			if !errors.As(err, &errs) || len(errs) == 0 || len(errs) > maxErrors+1 || c != nil {
				t.Fatalf("refused with %T of %d, configuration %v", err, len(errs), c)
			}
			if !slices.IsSortedFunc(errs, func(a, b Error) int { return cmp.Compare(a.Line, b.Line) }) {
				t.Fatalf("not sorted:\n%s", errs)
			}
			return
		}
		for _, p := range c.Profiles {
			if _, err := c.Profile(p.Name); err != nil {
				t.Fatal(err)
			}
			for _, b := range p.Backends {
				if !json.Valid(b.Settings) {
					t.Fatalf("settings are not JSON: %q", b.Settings)
				}
			}
		}
		roundTrip(t, c)
	})
}
