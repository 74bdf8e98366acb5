package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
)

var (
	// ErrUnknown is returned while the choice depends on labels that are not known yet.
	ErrUnknown = errors.New("the node's labels are not known yet")
	// ErrNone is returned if no profile is for this node.
	ErrNone = errors.New("no profile's nodeSelector matches the node's labels, and every profile has a nodeSelector")
)

// Choice is the profile that applies, and why.
type Choice struct {
	Profile *config.Profile
	// Reason is a clause for the operator: "the only profile".
	Reason string
}

// Named chooses without the node's labels: the profile of that name, or with "" the only or the
// default one.
func Named(c *config.NodeConfig, name string) (Choice, error) {
	if name == "" {
		var all []*config.Profile
		for i := range c.Profiles {
			all = append(all, &c.Profiles[i])
		}
		return fallback(all, "the only profile", "there is no API server to ask for the node's labels")
	}
	profile, err := c.Profile(name)
	return Choice{profile, "named on the command line"}, err
}

// Choose chooses by the node's labels; nil ones are not known, and give
// [ErrUnknown] if they matter. The error is shown to the operator.
func Choose(c *config.NodeConfig, labels map[string]string) (Choice, error) {
	var matching, plain []*config.Profile
	for i := range c.Profiles {
		p := &c.Profiles[i]
		switch {
		case p.NodeSelector == nil:
			plain = append(plain, p)
		case p.NodeSelector.Matches(labels):
			matching = append(matching, p)
		}
	}
	switch {
	case len(plain) == len(c.Profiles):
		return fallback(plain, onlyPlain, "no profile has a nodeSelector")
	case labels == nil:
		return Choice{}, fmt.Errorf("%w, and profiles have a nodeSelector", ErrUnknown)
	case len(matching) == 0 && len(plain) == 0:
		return Choice{}, ErrNone
	case len(matching) == 0:
		return fallback(plain, onlyPlain, "no profile's nodeSelector matches the node's labels")
	}
	return highest(matching)
}

// highest chooses between profiles that match.
func highest(matching []*config.Profile) (Choice, error) {
	best := slices.MaxFunc(matching, func(a, b *config.Profile) int { return a.Priority - b.Priority })
	var equal []string
	for _, p := range matching {
		if p.Priority == best.Priority {
			equal = append(equal, p.Name)
		}
	}
	if len(equal) > 1 {
		return Choice{}, fmt.Errorf("the nodeSelectors of the profiles %s match the node's labels with the same priority %d; give one a higher priority",
			strings.Join(equal, " and "), best.Priority)
	}
	reason := "its nodeSelector matches the node's labels"
	if len(matching) > 1 {
		reason += fmt.Sprintf("; %d profiles match, and it has the highest priority, %d", len(matching), best.Priority)
	}
	return Choice{best, reason}, nil
}

// onlyPlain describes the only profile without a nodeSelector.
const onlyPlain = "the only one without a nodeSelector"

// fallback chooses the default profile, or the only one; only describes that.
func fallback(plain []*config.Profile, only, why string) (Choice, error) {
	var names []string
	for _, p := range plain {
		if p.Name == config.DefaultProfile {
			return Choice{p, "the default, as " + why}, nil
		}
		names = append(names, p.Name)
	}
	if len(plain) == 1 {
		return Choice{plain[0], only + ", as " + why}, nil
	}
	return Choice{}, fmt.Errorf("%s; the candidates are the profiles %s: name one of them %q", why, strings.Join(names, ", "), config.DefaultProfile)
}
