package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxJoined is what Linux allows for one variable, with its name, '=' and NUL:
// MAX_ARG_STRLEN in include/uapi/linux/binfmts.h, 32 pages of 4 KiB.
const maxJoined = 128 << 10

// JoinEnv returns the variables that are joined in a container with these devices. A value has
// the parts of the devices' values, as the variable's separator divides them, in the order of
// the devices' IDs, each part once; empty parts are left out. The result is nil if nothing is
// joined. It is an error if two devices disagree on how a variable is joined, and if a value is
// too long to start a program with it.
func JoinEnv(devices []*Device) (map[string]string, error) {
	joins := separators(devices)
	if len(joins) == 0 {
		return nil, nil
	}
	sorted := slices.SortedStableFunc(slices.Values(devices), func(a, b *Device) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Backend, b.Backend))
	})
	env := make(map[string]string, len(joins))
	for _, name := range sortedKeys(joins) {
		if err := joins[name].check(name, devices); err != nil {
			return nil, err
		}
		env[name] = join(sorted, name, joins[name].separator)
		if n := len(name) + len("=") + len(env[name]) + 1; n > maxJoined {
			return nil, fmt.Errorf("the values of environment variable %s, joined, need %d bytes, and Linux starts no program with more than %d: ask for fewer devices",
				name, n, maxJoined)
		}
	}
	return env, nil
}

// DisagreeOnEnv returns a problem for each variable that some of the devices join and others
// don't, or with another separator; it names two of the devices.
func DisagreeOnEnv(devices []*Device) []string {
	var problems []string
	joins := separators(devices)
	for _, name := range sortedKeys(joins) {
		if err := joins[name].check(name, devices); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// joinRule is the rule of the first device that joins a variable.
type joinRule struct {
	separator string
	of        Key
}

// separators returns the rules of variables that at least one of the devices joins.
func separators(devices []*Device) map[string]joinRule {
	var joins map[string]joinRule // most devices join nothing, and Allocate waits for this
	for _, d := range devices {
		for name, separator := range d.Edits.EnvSeparators.All() {
			if joins == nil {
				joins = map[string]joinRule{}
			}
			if _, known := joins[name]; !known {
				joins[name] = joinRule{separator, d.Key}
			}
		}
	}
	return joins
}

// check returns an error for the first device that sets the variable by another rule.
func (r joinRule) check(name string, devices []*Device) error {
	for _, d := range devices {
		if _, set := d.Edits.Env.Get(name); !set {
			continue
		}
		if separator, joined := d.Edits.EnvSeparators.Get(name); !joined {
			return fmt.Errorf("environment variable %s is joined by %s for device %s, and not joined for device %s",
				name, quote(r.separator), r.of, d.Key)
		} else if separator != r.separator {
			return fmt.Errorf("environment variable %s is joined by %s for device %s, and by %s for device %s",
				name, quote(r.separator), r.of, quote(separator), d.Key)
		}
	}
	return nil
}

func join(devices []*Device, name, separator string) string {
	var parts []string
	seen := map[string]bool{}
	for _, d := range devices {
		value, _ := d.Edits.Env.Get(name)
		for part := range strings.SplitSeq(value, separator) {
			if part != "" && !seen[part] {
				seen[part] = true
				parts = append(parts, part)
			}
		}
	}
	return strings.Join(parts, separator)
}
