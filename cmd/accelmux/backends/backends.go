// Package backends is the command accelmux backends: what the manifests of backends ask for, and what a node configuration
// gives of it. It starts no program.
package backends

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/suggestion"
)

// Summary is one program in the backend directory, or one that the configuration names.
type Summary struct {
	Program string   `json:"program"`
	Name    string   `json:"name,omitempty"`
	Version string   `json:"version,omitempty"`
	Vendor  string   `json:"vendor,omitempty"`
	Classes []string `json:"classes,omitempty"`
	// UsedBy are the backends of the configuration that have the program, as PROFILE/NAME.
	UsedBy []string `json:"usedBy,omitempty"`
	// Problem is why the program would not be started.
	Problem string `json:"problem,omitempty"`
}

// Detail is a program with its manifest.
type Detail struct {
	Summary
	Manifest         string                  `json:"manifest"`
	Checksum         string                  `json:"checksum"`
	ManifestChecksum string                  `json:"manifestChecksum"`
	Abilities        []string                `json:"abilities,omitempty"`
	InUse            manifest.InUse          `json:"inUse"`
	Hardware         []string                `json:"hardware,omitempty"`
	PausedWhile      []string                `json:"pausedWhile,omitempty"`
	Attributes       []inventory.Declaration `json:"attributes,omitempty"`
	// Uses has one for each backend of the configuration, or one without settings if there is none.
	Uses []Use `json:"uses"`
}

// Use is what a manifest comes to for the settings of a backend.
type Use struct {
	Profile string `json:"profile,omitempty"`
	Backend string `json:"backend,omitempty"`
	// Declared is that of the backend's allow.
	Declared   config.Acceptance      `json:"declared"`
	Process    []manifest.Explanation `json:"process,omitempty"`
	Containers []manifest.Explanation `json:"containers,omitempty"`
	// Looks are the calls before which the agent looks whether a process has a device open.
	Looks []string `json:"looks,omitempty"`
	// Ungiven are settings that ask for what only allow gives.
	Ungiven []string `json:"ungiven,omitempty"`
	// AllowProcess and Allow are the lists of the backend's allow.
	AllowProcess []manifest.ExplainedList `json:"allowProcess,omitempty"`
	Allow        []manifest.ExplainedList `json:"allow,omitempty"`
	// Problem is why the settings are refused.
	Problem string `json:"problem,omitempty"`
}

// reference is a backend of a profile in the configuration.
type reference struct {
	profile string
	backend *config.Backend
}

// references are the backends of a configuration, by their programs; c may be nil.
func references(c *config.NodeConfig) map[string][]reference {
	all := map[string][]reference{}
	if c == nil {
		return all
	}
	for i := range c.Profiles {
		p := &c.Profiles[i]
		for j := range p.Backends {
			b := &p.Backends[j]
			all[b.Command] = append(all[b.Command], reference{p.Name, b})
		}
	}
	return all
}

// List returns the programs of backends in a directory and those that the configuration, which may be nil, names. It is an error
// if there are none.
func List(dir string, c *config.NodeConfig) ([]Summary, error) {
	used := references(c)
	names, err := plug.Programs(dir)
	if err != nil && len(used) == 0 {
		return nil, err
	}
	for name := range used {
		names = append(names, name)
	}
	slices.Sort(names)
	var all []Summary
	for _, name := range slices.Compact(names) {
		s, program := summary(dir, name, used[name])
		if program != nil {
			program.Close()
		}
		all = append(all, s)
	}
	return all, nil
}

// summary finds a program, which is nil if it would not be started.
func summary(dir, name string, uses []reference) (Summary, *plug.Program) {
	s := Summary{Program: name}
	for _, u := range uses {
		s.UsedBy = append(s.UsedBy, u.profile+"/"+u.backend.Name)
	}
	program, err := plug.Find(dir, name, plug.Pins{})
	if err != nil {
		s.Problem = err.Error()
		return s, nil
	}
	d := program.Manifest.Description
	s.Name, s.Version, s.Vendor, s.Classes = d.Name, d.Version, d.Vendor, d.Classes
	return s, program
}

// Describe returns a program with its manifest: that of the backend of this name in the configuration, which may be nil, or
// else accelmux-backend-NAME, or else the program NAME.
func Describe(ctx context.Context, dir, name string, c *config.NodeConfig) (*Detail, error) {
	used := references(c)
	command := config.CommandPrefix + name
	if _, err := os.Stat(filepath.Join(dir, command)); err != nil && filepath.Base(name) == name {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			command = name
		}
	}
	for program, uses := range used {
		if slices.ContainsFunc(uses, func(u reference) bool { return u.backend.Name == name }) {
			command = program
		}
	}
	s, program := summary(dir, command, used[command])
	if _, err := os.Stat(filepath.Join(dir, command)); errors.Is(err, fs.ErrNotExist) && len(used[command]) == 0 {
		names, err := plug.Programs(dir)
		if err != nil {
			return nil, err
		}
		for i := range names {
			names[i] = strings.TrimPrefix(names[i], config.CommandPrefix)
		}
		return nil, fmt.Errorf("no backend %q is installed in %s%s", name, dir, suggestion.OrAll(name, "there are", names))
	}
	if program == nil {
		return nil, fmt.Errorf("%s", s.Problem)
	}
	defer program.Close()
	sum, err := program.Checksum()
	if err != nil {
		return nil, err
	}
	m := program.Manifest
	detail := &Detail{
		Summary: s, Manifest: plug.ManifestFile(dir, command), Checksum: sum, ManifestChecksum: m.Sum,
		Abilities: abilities(m.Description), InUse: m.InUse, Attributes: m.Attributes(nil),
	}
	for _, h := range m.Hardware {
		detail.Hardware = append(detail.Hardware, hardware(h))
	}
	for _, p := range m.PausedWhile {
		detail.PausedWhile = append(detail.PausedWhile, p.Label+": "+strings.Join(p.Values, ", "))
	}
	for _, u := range used[command] {
		detail.Uses = append(detail.Uses, use(ctx, m, u))
	}
	if len(detail.Uses) == 0 {
		detail.Uses = []Use{use(ctx, m, reference{backend: &config.Backend{Allow: config.EditPolicy{Declared: config.DefaultAcceptance(command)}}})}
	}
	return detail, nil
}

func abilities(d inventory.Description) (all []string) {
	for _, a := range []struct {
		name string
		has  bool
	}{{"prepare", d.Prepare}, {"release", d.Release}, {"reset", d.Reset}, {"sample", d.Sample}} {
		if a.has {
			all = append(all, a.name)
		}
	}
	return all
}

func hardware(h manifest.Hardware) string {
	var parts []string
	for _, part := range []struct{ name, value string }{{"vendor", h.Vendor}, {"device", h.Device}, {"class", h.Class}} {
		if part.value != "" {
			parts = append(parts, part.name+" "+part.value)
		}
	}
	return h.Name + " (" + strings.Join(parts, ", ") + ")"
}

// use resolves a manifest for the settings of a backend.
func use(ctx context.Context, m *manifest.Manifest, r reference) Use {
	b := r.backend
	u := Use{Profile: r.profile, Backend: b.Name, Declared: b.Allow.Declared}
	p := b.Allow.Process
	u.AllowProcess = lists("read", p.Read, "list", p.List, "write", p.Write, "open", p.Open, "capabilities", p.Capabilities, "systemCalls", p.SystemCalls)
	u.Allow = lists("devices", b.Allow.Devices, "mounts", b.Allow.Mounts, "hooks", b.Allow.Hooks, "env", b.Allow.Env, "netDevices", b.Allow.NetDevices)
	if len(b.Allow.GIDs) > 0 {
		u.Allow = append(u.Allow, manifest.ExplainedList{Field: "gids", GIDs: b.Allow.GIDs})
	}
	settings, err := m.Merge(json.RawMessage(b.Settings))
	if err == nil && len(b.Settings) > 0 {
		err = m.Check(ctx, settings)
	}
	var rights manifest.Rights
	if err == nil {
		rights, err = m.Rights(settings)
	}
	if err == nil {
		u.Looks = looks(m, settings)
		u.Process, u.Containers, err = m.Explain(settings)
	}
	for _, f := range rights.Ungiven {
		u.Ungiven = append(u.Ungiven, f.Field+": "+f.Message)
	}
	if err != nil {
		u.Problem = err.Error()
	}
	return u
}

func looks(m *manifest.Manifest, settings json.RawMessage) (all []string) {
	look := m.Look(settings)
	if look.Reset && m.Description.Reset {
		all = append(all, "Reset")
	}
	if look.Report || look.Fail {
		all = append(all, map[bool]string{false: "Prepare (logs the process)", true: "Prepare (refuses)"}[look.Fail])
	}
	return all
}

// lists pairs fields and their entries.
func lists(pairs ...any) (all []manifest.ExplainedList) {
	for i := 0; i < len(pairs); i += 2 {
		if entries := pairs[i+1].([]string); len(entries) > 0 {
			all = append(all, manifest.ExplainedList{Field: pairs[i].(string), Entries: entries})
		}
	}
	return all
}
