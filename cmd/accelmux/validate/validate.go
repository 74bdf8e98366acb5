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

// Run checks a configuration by the manifests of programs in a directory; file names it in messages.
func Run(ctx context.Context, file string, data []byte, backendDir string) Result {
	r := Result{File: file, Errors: []Finding{}, Warnings: []Finding{}, Unchecked: []Unchecked{}, Profiles: []Profile{}}
	c, err := config.ParsePartly(file, data)
	check := &check{result: &r, positions: config.PositionsIn(data), manifests: manifests{dir: backendDir, loaded: map[string]loaded{}}}
	if err != nil {
		r.Errors = findings(err)
		if c != nil {
			check.checkValid(ctx, c)
		}
		byPosition(r.Errors)
		return r
	}
	r.Config = c
	for i := range c.Profiles {
		check.profile(ctx, &c.Profiles[i], fmt.Sprintf("profiles[%d]", i))
	}
	byPosition(r.Errors)
	byPosition(r.Warnings)
	return r
}

// NeedProfile adds an error if a valid configuration does not have the profile.
func (r *Result) NeedProfile(name string) {
	if r.Config == nil {
		return
	}
	if _, err := r.Config.Profile(name); err != nil {
		r.Errors = append(r.Errors, Finding{Message: err.Error()})
	}
}

// Load loads a configuration file and checks it by the manifests of programs in a directory. The error is that of
// [config.Load].
func Load(ctx context.Context, path, backendDir string) (*config.NodeConfig, error) {
	data, err := config.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := config.Parse(path, data)
	if err != nil {
		return nil, err
	}
	return c, plug.CheckConfig(ctx, backendDir, path, data, c)
}

func findings(err error) []Finding {
	var all config.Errors
	if !errors.As(err, &all) {
		return []Finding{{Message: err.Error()}}
	}
	found := make([]Finding, len(all))
	for i, e := range all {
		found[i] = Finding{e.Line, e.Column, e.Field, e.Message}
	}
	return found
}

func byPosition(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column, cmp.Compare(a.Field, b.Field)) })
}

// check is a check in progress.
type check struct {
	result    *Result
	positions config.Positions
	manifests manifests
}

func (c *check) finding(field, message string) Finding {
	at := c.positions.Of(field)
	return Finding{at.Line, at.Column, field, message}
}

func (c *check) warn(field, format string, args ...any) {
	c.result.Warnings = append(c.result.Warnings, c.finding(field, fmt.Sprintf(format, args...)))
}

// profile checks one profile, whose path is at.
func (c *check) profile(ctx context.Context, p *config.Profile, at string) {
	c.result.Profiles = append(c.result.Profiles, Profile{p.Name, len(p.Backends), len(p.Resources)})
	var known []*inventory.Backend
	for i := range p.Backends {
		b, at := &p.Backends[i], fmt.Sprintf("%s.backends[%d]", at, i)
		before := len(c.result.Errors)
		described, err := c.describe(ctx, b, at)
		switch {
		case len(c.result.Errors) > before: // settings may decide on names
			continue
		case err == nil:
			known = append(known, described.Backend)
		default:
			c.unchecked(b, err)
		}
		c.allows(b, at, described.rights)
	}
	names := reference.Find(p)
	for _, u := range append(names.Unknown(known), names.Parameters(known)...) {
		if found := c.finding(at+"."+u.Field, u.Message); u.Empties {
			c.result.Errors = append(c.result.Errors, found)
		} else {
			c.result.Warnings = append(c.result.Warnings, found)
		}
	}
	c.starved(p, at)
	if len(p.Resources) == 0 {
		c.warn(at, "profile %s has no resources, so pods get no devices: add resources: [{name: example.com/gpu}], with a name of yours", p.Name)
	}
}

// describe describes a backend, whose path is at, and adds the errors in its name and its settings.
func (c *check) describe(ctx context.Context, b *config.Backend, at string) (described, error) {
	found, err := c.manifests.describe(ctx, b, c.settings(at))
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	// Another name may be that of a backend on other nodes, but one that is nearly that of a backend here is hardly one.
	field, got := at+".name", b.Name
	if _, isSet := c.positions[at+".command"]; isSet {
		field, got = at+".command", b.Command
	}
	for _, name := range c.manifests.installed() {
		if other := strings.TrimPrefix(name, config.CommandPrefix); suggestion.IsMisspelt(got, other) || suggestion.IsMisspelt(got, name) || got == other && got != b.Name {
			if field == at+".command" {
				other = name
			}
			c.result.Errors = append(c.result.Errors, c.finding(field, fmt.Sprintf("no backend %s is installed in %s; did you mean %q?", got, c.manifests.dir, other)))
			break
		}
	}
	return found, err
}

// unchecked adds a backend whose manifest cannot be used, once.
func (c *check) unchecked(b *config.Backend, err error) {
	why := err.Error()
	if errors.Is(err, fs.ErrNotExist) {
		why = fmt.Sprintf("it is not installed in %s, which has %s", c.manifests.dir, cmp.Or(strings.Join(c.manifests.installed(), ", "), "no backends"))
	}
	if u := (Unchecked{b.Command, why}); !slices.Contains(c.result.Unchecked, u) {
		c.result.Unchecked = append(c.result.Unchecked, u)
	}
}

// settings returns what adds an error about a field of the settings of the backend at a path.
func (c *check) settings(at string) func(field, message string) {
	return func(field, message string) {
		c.result.Errors = append(c.result.Errors, c.finding(plug.FieldOf(at+".settings", field), message))
	}
}

// checkValid checks the settings of the backends without an error, in a configuration with errors elsewhere.
func (c *check) checkValid(ctx context.Context, all *config.NodeConfig) {
	found := slices.Clone(c.result.Errors)
	for i := range all.Profiles {
		for j := range all.Profiles[i].Backends {
			at := fmt.Sprintf("profiles[%d].backends[%d]", i, j)
			if !slices.ContainsFunc(found, func(f Finding) bool { return strings.HasPrefix(f.Field, at) }) {
				_, _ = c.describe(ctx, &all.Profiles[i].Backends[j], at) // the next check says what was not checked
			}
		}
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
