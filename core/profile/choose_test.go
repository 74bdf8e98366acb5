package profile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/profile"
)

// newProfile returns one with a nodeSelector for the label accelerator, or without one if
// that is "-". "*" selects every node.
func newProfile(name, accelerator string, priority int) config.Profile {
	p := config.Profile{Name: name, Priority: priority}
	switch accelerator {
	case "-":
	case "*":
		p.NodeSelector = &config.NodeSelector{}
	default:
		p.NodeSelector = &config.NodeSelector{MatchLabels: map[string]string{"accelerator": accelerator}}
	}
	return p
}

// Verifies the rules for the choice by labels, and what the operator reads.
func TestChoose(t *testing.T) {
	gpu := map[string]string{"accelerator": "gpu", "zone": "a"}
	for name, c := range map[string]struct {
		profiles []config.Profile
		labels   map[string]string
		want     string
		reason   string
		err      string
	}{
		"the one that matches": {
			profiles: []config.Profile{newProfile("default", "-", 0), newProfile("a", "gpu", 0), newProfile("b", "fpga", 9)},
			labels:   gpu, want: "a", reason: "its nodeSelector matches the node's labels",
		},
		"the highest priority": {
			profiles: []config.Profile{newProfile("a", "gpu", -1), newProfile("b", "*", 2), newProfile("c", "gpu", 1)},
			labels:   gpu, want: "b", reason: "; 3 profiles match, and it has the highest priority, 2",
		},
		"equal rank": {
			profiles: []config.Profile{newProfile("default", "-", 0), newProfile("a", "gpu", 1), newProfile("b", "*", 1), newProfile("c", "gpu", 0)},
			labels:   gpu, err: "profiles a and b match the node's labels with the same priority 1",
		},
		"equal rank below the highest": {
			profiles: []config.Profile{newProfile("a", "gpu", 1), newProfile("b", "gpu", 1), newProfile("c", "gpu", 2)},
			labels:   gpu, want: "c",
		},
		"none matches, default": {
			profiles: []config.Profile{newProfile("a", "fpga", 0), newProfile("b", "-", 0), newProfile("default", "-", 0)},
			labels:   gpu, want: "default", reason: "the default, as no profile's nodeSelector matches",
		},
		"none matches, one without": {
			profiles: []config.Profile{newProfile("a", "fpga", 0), newProfile("b", "-", 0)},
			labels:   gpu, want: "b", reason: "the only one without a nodeSelector",
		},
		"none matches, default has a nodeSelector": {
			profiles: []config.Profile{newProfile("default", "fpga", 0), newProfile("b", "-", 0)},
			labels:   gpu, want: "b",
		},
		"none matches, none without": {
			profiles: []config.Profile{newProfile("default", "fpga", 0)},
			labels:   gpu, err: "every profile has a nodeSelector",
		},
		"none matches, several without": {
			profiles: []config.Profile{newProfile("a", "fpga", 0), newProfile("b", "-", 0), newProfile("c", "-", 0)},
			labels:   gpu, err: `the candidates are the profiles b, c: name one of them "default"`,
		},
		"no labels at all":         {profiles: []config.Profile{newProfile("a", "gpu", 0), newProfile("b", "-", 0)}, labels: map[string]string{}, want: "b"},
		"unknown labels":           {profiles: []config.Profile{newProfile("a", "gpu", 0), newProfile("default", "-", 0)}, err: profile.ErrUnknown.Error()},
		"unknown labels, no harm":  {profiles: []config.Profile{newProfile("a", "-", 0), newProfile("default", "-", 0)}, want: "default", reason: "no profile has a nodeSelector"},
		"unknown labels, only one": {profiles: []config.Profile{newProfile("a", "-", 0)}, want: "a"},
		"unknown labels, which one": {
			profiles: []config.Profile{newProfile("a", "-", 0), newProfile("b", "-", 0)}, err: "no profile has a nodeSelector; the candidates are the profiles a, b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := profile.Choose(&config.NodeConfig{Profiles: c.profiles}, c.labels)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				if unknown := errors.Is(err, profile.ErrUnknown); unknown != (c.err == profile.ErrUnknown.Error()) {
					t.Errorf("the error is ErrUnknown: %v", unknown)
				}
				if none := errors.Is(err, profile.ErrNone); none != strings.Contains(c.err, "every profile has a nodeSelector") {
					t.Errorf("the error is ErrNone: %v", none)
				}
				return
			}
			if err != nil || got.Profile.Name != c.want || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("got %+v, %v; want %s because %q", got, err, c.want, c.reason)
			}
		})
	}
}

// Verifies that a name wins over all selectors, and what applies without labels.
func TestNamed(t *testing.T) {
	both := []config.Profile{newProfile("default", "-", 0), newProfile("a", "fpga", 0)}
	for name, c := range map[string]struct {
		profiles []config.Profile
		ask      string
		want     string
		reason   string
	}{
		"named":        {both, "a", "a", "named on the command line"},
		"default":      {both, "", "default", "the default"},
		"the only one": {both[1:], "", "a", "the only profile"},
		"unknown":      {both, "b", "", ""},
		"two":          {[]config.Profile{newProfile("a", "-", 0), newProfile("b", "-", 0)}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := profile.Named(&config.NodeConfig{Profiles: c.profiles}, c.ask)
			if (err != nil) != (c.want == "") || err == nil && (got.Profile.Name != c.want || !strings.Contains(got.Reason, c.reason)) {
				t.Errorf("got %+v, %v; want %q because %q", got, err, c.want, c.reason)
			}
		})
	}
}
