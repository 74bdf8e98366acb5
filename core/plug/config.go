package plug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/reference"
)

// Check is the check of a configuration before anything of it applies: by its syntax, and by the manifests of the programs in
// a directory. It starts nothing.
type Check struct {
	Dir string
	// More returns what else is wrong with the settings of a program, in place of what the rights need of expressions in
	// them. Nil for nothing.
	More func(command string, merged json.RawMessage) manifest.FieldErrors
}

// Checked is what a check finds.
type Checked struct {
	// Config is the configuration, or what can be read of it; nil if that is nothing.
	Config *config.NodeConfig
	// IsValid: its syntax is right.
	IsValid bool
	// Errors are why it is refused, by their positions; none if it applies.
	Errors config.Errors
	// Backends are those of each profile, in its order: where the syntax is wrong, only backends without such an error are
	// checked.
	Backends [][]CheckedBackend
}

// CheckedBackend is a backend by its manifest. Without a manifest that can be used it refuses nothing: another node may have
// it, and what is wrong is a problem of this backend alone.
type CheckedBackend struct {
	Resolved
	// Described is the backend as its manifest has it for its settings; nil if these are refused or not checked.
	Described *inventory.Backend
	// Manifest is that of Described.
	Manifest *manifest.Manifest
	// Unchecked is why the settings are not checked; nil if they are.
	Unchecked error
}

// Run checks a configuration; file names it in errors.
func (c Check) Run(ctx context.Context, file string, data []byte) (all Checked) {
	parsed, err := config.ParsePartly(file, data)
	all.Config, all.IsValid = parsed, err == nil
	if errors.As(err, &all.Errors); parsed == nil {
		return all
	}
	r := &checkRun{Check: c, file: file, positions: config.PositionsIn(data), manifests: map[string]loaded{}, syntax: all.Errors, errs: slices.Clone(all.Errors)}
	for i := range parsed.Profiles {
		all.Backends = append(all.Backends, r.profile(ctx, &parsed.Profiles[i], fmt.Sprintf("profiles[%d]", i)))
	}
	errors.As(r.errs.Err(), &all.Errors)
	return all
}

// checkRun is a check in progress.
type checkRun struct {
	Check
	file      string
	positions config.Positions
	// manifests are those that were loaded, by the program.
	manifests map[string]loaded
	// syntax are the errors of syntax, errs all.
	syntax, errs config.Errors
}

// loaded is a manifest, or why it cannot be used.
type loaded struct {
	*manifest.Manifest
	err error
}

func (r *checkRun) refuse(field, message string) {
	r.errs = append(r.errs, config.Error{File: r.file, Position: r.positions.Of(field), Field: field, Message: message})
}

// profile checks one profile, whose path is at.
func (r *checkRun) profile(ctx context.Context, p *config.Profile, at string) (all []CheckedBackend) {
	var described []*inventory.Backend
	for i := range p.Backends {
		at, b := fmt.Sprintf("%s.backends[%d]", at, i), CheckedBackend{}
		if !slices.ContainsFunc(r.syntax, func(e config.Error) bool { return strings.HasPrefix(e.Field, at) }) {
			b = r.backend(ctx, &p.Backends[i], at)
		}
		if all = append(all, b); b.Described != nil {
			described = append(described, b.Described)
		}
	}
	if len(r.syntax) > 0 {
		return all // names may be wrong because of them
	}
	for _, u := range reference.Find(p).Unknown(described) {
		if u.Empties {
			r.refuse(at+"."+u.Field, u.Message)
		}
	}
	return all
}

// backend checks one backend, whose path is at.
func (r *checkRun) backend(ctx context.Context, b *config.Backend, at string) (checked CheckedBackend) {
	m, known := r.manifests[b.Command]
	if !known {
		m.Manifest, m.err = manifest.Load(ManifestFile(r.Dir, b.Command))
		r.manifests[b.Command] = m
	}
	if m.err != nil {
		return CheckedBackend{Unchecked: m.err}
	}
	resolved, err := Resolve(ctx, m.Manifest, json.RawMessage(b.Settings))
	checked.Resolved = resolved
	var wrong manifest.FieldErrors
	if err != nil && !errors.As(err, &wrong) {
		return CheckedBackend{Unchecked: err}
	}
	if r.More != nil {
		more := slices.DeleteFunc(r.More(b.Command, resolved.Settings), func(f manifest.FieldError) bool { // consequences
			return slices.ContainsFunc(wrong, func(other manifest.FieldError) bool { return f.Field == "" || entryOf(f.Field) == entryOf(other.Field) })
		})
		if len(more) > 0 {
			wrong = append(slices.DeleteFunc(wrong, func(f manifest.FieldError) bool { return strings.Contains(f.Field, "[*]") }), more...)
		}
	}
	for i, f := range wrong {
		if !slices.ContainsFunc(wrong[:i], func(other manifest.FieldError) bool {
			return other.Field == f.Field || strings.HasPrefix(f.Field, other.Field+".") // of which it may be a consequence
		}) {
			r.refuse(FieldOf(at+".settings", f.Field), f.Message)
		}
	}
	if len(wrong) == 0 {
		checked.Described = &inventory.Backend{Name: b.Name, Description: m.Description}
		checked.Described.Description.Attributes = m.Attributes(resolved.Settings)
		checked.Manifest = m.Manifest
	}
	return checked
}

// entryOf returns the entry of a list that a field of settings is in.
func entryOf(field string) string {
	entry, _, _ := strings.Cut(field, "]")
	return entry
}

// FieldOf returns the path of a field in settings whose path is at.
func FieldOf(at, field string) string {
	if field != "" && field[0] != '[' {
		at += "."
	}
	return at + field
}
