// Package validate checks a node configuration without running it: as an agent would, and beyond that the names that the
// configuration uses, by the manifests of the backends.
package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/reference"
	"github.com/accelmux/accelmux/core/suggestion"
)

// Result is what is wrong with a configuration.
type Result struct {
	File string `json:"file"`
	// Errors are why an agent, or a backend, would refuse it.
	Errors []Finding `json:"errors"`
	// Warnings are what its author may not have meant.
	Warnings []Finding `json:"warnings"`
	// Unchecked are the backends whose settings and names were not checked.
	Unchecked []Unchecked `json:"unchecked"`
	Profiles  []Profile   `json:"profiles"`
	// Changes are what would change on a node that it was compared with; nil without one, or with an error.
	Changes *Changes `json:"changes,omitempty"`
	// Config is the configuration; nil if an agent would refuse it.
	Config *config.NodeConfig `json:"-"`
}

// Finding is something that is wrong.
type Finding struct {
	// Line and Column count from 1; 0 if they are not known.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Field is the path of the field, such as profiles[0].resources[1].name; "" for the file as a whole.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// Unchecked is a program whose manifest cannot be used.
type Unchecked struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// Profile is a profile of a configuration that an agent would accept.
type Profile struct {
	Name      string `json:"name"`
	Backends  int    `json:"backends"`
	Resources int    `json:"resources"`
}

// StandardInput is the name of a file that is read from there.
const StandardInput = config.StandardInput

// Run checks a configuration by the manifests of programs in a directory; file names it in messages, and named is the profile
// that the agent's command line has, "" for none.
func Run(ctx context.Context, file string, data []byte, backendDir, named string) Result {
	r := Result{File: file, Errors: []Finding{}, Warnings: []Finding{}, Unchecked: []Unchecked{}, Profiles: []Profile{}}
	checked := plug.Check{Dir: backendDir, More: expressions}.Run(ctx, file, data)
	for _, e := range checked.Errors {
		r.Errors = append(r.Errors, Finding{e.Line, e.Column, e.Field, e.Message})
	}
	check := &check{result: &r, positions: config.PositionsIn(data), dir: backendDir, isValid: checked.IsValid}
	if checked.IsValid {
		r.Config = checked.Config
	}
	for i, backends := range checked.Backends {
		check.profile(&checked.Config.Profiles[i], backends, fmt.Sprintf("profiles[%d]", i))
	}
	check.chosen(named)
	byPosition(r.Errors)
	byPosition(r.Warnings)
	return r
}

// Load loads a configuration file and checks it by the manifests of programs in a directory. The error is that of
// [config.Load].
func Load(ctx context.Context, path, backendDir string) (*config.NodeConfig, error) {
	data, err := config.ReadFile(path)
	if err != nil {
		return nil, err
	}
	checked := plug.Check{Dir: backendDir}.Run(ctx, path, data)
	if !checked.IsValid {
		return nil, checked.Errors
	}
	return checked.Config, checked.Errors.Err()
}

func byPosition(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column, cmp.Compare(a.Field, b.Field)) })
}

// check is a check in progress.
type check struct {
	result    *Result
	positions config.Positions
	// dir has the programs.
	dir string
	// isValid: the syntax is right.
	isValid bool
}

func (c *check) finding(field, message string) Finding {
	at := c.positions.Of(field)
	return Finding{at.Line, at.Column, field, message}
}

func (c *check) warn(field, format string, args ...any) {
	c.result.Warnings = append(c.result.Warnings, c.finding(field, fmt.Sprintf(format, args...)))
}

// chosen adds an error if a valid configuration does not have the named profile, or warnings of profiles that nodes cannot
// choose by their labels.
func (c *check) chosen(named string) {
	all := c.result.Config
	if all == nil {
		return
	}
	if named != "" {
		if _, err := all.Profile(named); err != nil {
			c.result.Errors = append(c.result.Errors, Finding{Message: err.Error()})
		}
		return
	}
	for i := range all.Profiles {
		if why := profile.Overruled(all, i); why != "" {
			c.warn(fmt.Sprintf("profiles[%d]", i), "%s", why)
		}
	}
}

// profile checks one profile, whose path is at, beyond what an agent refuses.
func (c *check) profile(p *config.Profile, backends []plug.CheckedBackend, at string) {
	var known []*inventory.Backend
	for i, checked := range backends {
		b, at := &p.Backends[i], fmt.Sprintf("%s.backends[%d]", at, i)
		switch {
		case c.misspelt(b, checked.Unchecked, at), !c.isValid, checked.Described == nil && checked.Unchecked == nil: // settings may decide on names
			continue
		case checked.Unchecked == nil:
			checked.Described.Description.Limits = checked.Manifest.Limits(checked.Settings)
			known = append(known, checked.Described)
		default:
			c.unchecked(b, checked.Unchecked)
		}
		c.allows(b, at, checked.Rights)
	}
	if !c.isValid {
		return
	}
	c.result.Profiles = append(c.result.Profiles, Profile{p.Name, len(p.Backends), len(p.Resources)})
	names := reference.Find(p)
	for _, u := range append(names.Unknown(known), names.Warnings(known)...) {
		if !u.Empties {
			c.warn(at+"."+u.Field, "%s", u.Message)
		}
	}
	c.starved(p, at)
	c.idle(p, at)
	if len(p.Resources) == 0 {
		c.warn(at, "profile %s has no resources, so pods get no devices: add resources: [{name: example.com/gpu}], with a name of yours", p.Name)
	}
}

// misspelt adds an error if a backend, whose path is at, has no manifest here, and nearly the name of one that has. Another
// name may be that of a backend on other nodes.
func (c *check) misspelt(b *config.Backend, unchecked error, at string) bool {
	if !errors.Is(unchecked, fs.ErrNotExist) {
		return false
	}
	field, got := at+".name", b.Name
	if _, isSet := c.positions[at+".command"]; isSet {
		field, got = at+".command", b.Command
	}
	for _, name := range programsIn(c.dir) {
		if other := strings.TrimPrefix(name, config.CommandPrefix); suggestion.IsMisspelt(got, other) || suggestion.IsMisspelt(got, name) || got == other && got != b.Name {
			if field == at+".command" {
				other = name
			}
			c.result.Errors = append(c.result.Errors, c.finding(field, fmt.Sprintf("no backend %s is installed in %s; did you mean %q?", got, c.dir, other)))
			return true
		}
	}
	return false
}

// unchecked adds a backend whose manifest cannot be used, once.
func (c *check) unchecked(b *config.Backend, err error) {
	why := err.Error()
	if errors.Is(err, fs.ErrNotExist) {
		why = fmt.Sprintf("it is not installed in %s, which has %s", c.dir, cmp.Or(strings.Join(programsIn(c.dir), ", "), "no backends"))
	}
	if u := (Unchecked{b.Command, why}); !slices.Contains(c.result.Unchecked, u) {
		c.result.Unchecked = append(c.result.Unchecked, u)
	}
}

// starved warns of resources that an earlier one leaves no device.
func (c *check) starved(p *config.Profile, at string) {
	for i := range p.Resources {
		r := &p.Resources[i]
		if by := slices.IndexFunc(p.Resources[:i], func(earlier config.Resource) bool { return earlier.Covers(r) }); by >= 0 {
			first := p.Resources[by].Name
			c.warn(fmt.Sprintf("%s.resources[%d]", at, i), "resource %s gets no device: %s, before it, takes them all: put %s first, or limit %s by backend, class or selector",
				r.Name, first, r.Name, first)
		}
	}
}

// allows warns of what containers cannot get of a backend.
func (c *check) allows(b *config.Backend, at string, rights manifest.Rights) {
	if b.Allow.AllowsNothing() {
		c.warn(at, "backend %s may give nothing to containers: accept its manifest with allow: {declared: accept}, or list in allow what they get; accelmux backends %s prints the manifest", b.Name, b.Name)
	} else if missing := notAllowed(b, rights); !missing.Empty() {
		c.warn(at, "backend %s: its devices that need these are left out unless it has allow: %s", b.Name, missing.YAML())
	}
	if len(b.Allow.Devices) == 0 {
		for _, f := range rights.Ungiven {
			c.warn(plug.FieldOf(at+".settings", f.Field), "%s", f.Message)
		}
	}
}
