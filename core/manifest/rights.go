package manifest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/schema"
	"github.com/accelmux/accelmux/core/text"
)

// kind is the sort of a list of rights, named as its field.
type kind string

const (
	listed          kind = "list"
	readable        kind = "read"
	written         kind = "write"
	opened          kind = "open"
	words           kind = "capabilities"
	calls           kind = "systemCalls"
	nodes           kind = "devices"
	mounted         kind = "mounts"
	mountedReadOnly kind = "readOnlyMounts"
	programs        kind = "hooks"
	variables       kind = "env"
	interfaces      kind = "netDevices"
)

func (k kind) field() string { return string(k) }

func (k kind) isPath() bool {
	return !slices.Contains([]kind{words, calls, variables, interfaces}, k)
}

// problem returns why an entry of a backend cannot be in a list; "" if it can. The owner of what a setting names is any
// backend.
func (k kind) problem(entry, owner string) string {
	_, err := path.Match(entry, "")
	plain := err == nil && entry != "" && len(entry) <= maxEntry && entry == text.Printable(entry, maxEntry)
	dir := strings.TrimSuffix(entry, "/**")
	switch {
	case k == words && !capability.MatchString(entry):
		return "is not a capability such as CAP_SYS_ADMIN"
	case k == calls && !callGroup.MatchString(entry):
		return "is not a group of system calls such as @raw-io"
	case k == variables && (len(entry) > maxVariable || !variable.MatchString(entry)):
		return `is not a variable's name, nor the beginning of one and "*"`
	case k == interfaces && (!plain || strings.ContainsAny(entry, "/: ")):
		return "is not the name of a network interface, nor a pattern of path.Match"
	case saysNothing(k, entry):
		return "stands for too much: name a directory, or the beginning of a name"
	case k.isPath() && plain && !strings.HasPrefix(entry, "/"):
		return "is not an absolute path"
	case k.isPath() && (!plain || dir != "" && path.Clean(dir) != dir):
		return `is not a path without ".", ".." and "//", with the patterns of path.Match and "/**" at the end`
	case k.isPath() && wildcards(entry) > maxWildcards:
		return fmt.Sprintf("has %d wildcards; at most %d are possible", wildcards(entry), maxWildcards)
	}
	if never := inventory.Never(inventory.Use(k), entry, owner); never != "" {
		return "may not be given to any backend: it also stands for " + never
	}
	return ""
}

// saysNothing reports whether a pattern stands for all of the root, for all nodes or for all network interfaces.
func saysNothing(k kind, entry string) bool {
	if k == interfaces {
		return strings.Trim(entry, "*?") == ""
	}
	i := strings.IndexAny(entry, `*?[`)
	return k.isPath() && i >= 0 && (path.Dir(entry[:i]+"x") == "/" && i == 1 || k != listed && entry[:i] == "/dev/")
}

// wildcards counts "*", "**" and "?", but no classes such as [0-9].
func wildcards(pattern string) (n int) {
	last := ""
	for _, t := range inventory.Tokens(pattern) {
		if t == "?" || t == "*" && last != "*" {
			n++
		}
		last = t
	}
	return n
}

// list is a list of a group.
type list struct {
	kind    kind
	entries []Entry
}

// group is a group of either sort.
type group struct {
	why   string
	when  When
	lists []list
	gids  []int
}

func processGroups(all []ProcessGroup) (groups []group) {
	for _, g := range all {
		groups = append(groups, group{why: g.Why, when: g.When, lists: []list{
			{listed, g.List}, {readable, g.Read}, {written, g.Write}, {opened, g.Open}, {words, g.Capabilities}, {calls, g.SystemCalls},
		}})
	}
	return groups
}

func containerGroups(all []ContainerGroup) (groups []group) {
	for _, g := range all {
		groups = append(groups, group{why: g.Why, when: g.When, gids: g.GIDs, lists: []list{
			{nodes, g.Devices}, {mounted, g.Mounts}, {mountedReadOnly, g.ReadOnlyMounts}, {programs, g.Hooks}, {variables, g.Env}, {interfaces, g.NetDevices},
		}})
	}
	return groups
}

// Rights are what a process gets and what its edits may contain.
type Rights struct {
	Process    sandbox.Needs
	Containers inventory.EditScope
	// Ungiven are settings that ask for what only the configuration's allow gives: disks, and nodes without the beginning
	// of a name. Their devices need that.
	Ungiven []FieldError
}

// Check checks merged settings by their schema. The error is a [FieldErrors] if they are wrong.
func (m *Manifest) Check(ctx context.Context, settings json.RawMessage) error {
	violations, err := schema.Violations(ctx, cmp.Or(m.Description.SettingsSchema, noSettings), orEmpty(settings))
	if err != nil {
		return err
	}
	var refused FieldErrors
	for _, v := range violations {
		refused = append(refused, FieldError{v.Field, v.Message})
	}
	if refused != nil {
		return refused
	}
	return nil
}

// noSettings is the schema of a manifest without one.
const noSettings = `{"type": "object", "additionalProperties": false}`

func orEmpty(settings json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(settings)) == 0 || string(settings) == "null" {
		return json.RawMessage("{}")
	}
	return settings
}

// filled returns settings with the defaults of their schema.
func (m *Manifest) filled(settings json.RawMessage) (any, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(orEmpty(settings)))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	f := &filler{schema: m.schema}
	if err := f.fill(m.schema, value, 0); err != nil {
		return nil, err
	}
	return value, nil
}

// Rights returns the rights that follow from merged settings, each list sorted, each entry once. The error is a
// [FieldErrors] if a setting leads to what no backend may have.
func (m *Manifest) Rights(settings json.RawMessage) (Rights, error) {
	value, err := m.filled(settings)
	if err != nil {
		return Rights{}, err
	}
	r := &resolver{name: m.Description.Name, settings: value, lists: map[kind]map[string]bool{}}
	for _, g := range slices.Concat(processGroups(m.Process), containerGroups(m.Containers)) {
		if !holds(value, g.when) {
			continue
		}
		for _, l := range g.lists {
			for _, e := range l.entries {
				r.entry(l.kind, e)
			}
		}
		for _, gid := range g.gids {
			r.gids = append(r.gids, uint32(gid)) // checked
		}
	}
	if r.errs != nil {
		return Rights{}, r.errs
	}
	slices.Sort(r.gids)
	rights := Rights{
		Ungiven: r.ungiven,
		Process: sandbox.Needs{
			List: r.sorted(listed), Read: r.sorted(readable), Write: r.sorted(written), Open: r.sorted(opened),
			Capabilities: r.sorted(words), SystemCalls: r.sorted(calls), Interfaces: r.sorted(interfaces),
		},
		Containers: inventory.EditScope{
			Devices: r.sorted(nodes), Mounts: r.sorted(mounted), ReadOnlyMounts: r.sorted(mountedReadOnly),
			Hooks: r.sorted(programs), Env: r.sorted(variables), NetDevices: r.sorted(interfaces), GIDs: slices.Compact(r.gids),
		},
	}
	return rights, nil
}

// Attributes returns the declarations for merged settings, in order, each name once.
func (m *Manifest) Attributes(settings json.RawMessage) []inventory.Declaration {
	value, err := m.filled(settings)
	if err != nil {
		return m.Description.Attributes
	}
	var all []inventory.Declaration
	seen := map[string]bool{}
	for _, a := range m.attributes {
		if !holds(value, a.When) {
			continue
		}
		names := []string{a.Name}
		if a.Keys != "" {
			names = nil
			for _, found := range find(value, a.Keys) {
				if object, ok := found.value.(map[string]any); ok {
					names = append(names, slices.Sorted(maps.Keys(object))...)
				}
			}
		}
		for _, name := range names {
			id := name + "\x00" + map[bool]string{true: a.Kind}[a.Kind == "capacity"]
			if declared.MatchString(name) && !seen[id] && len(all) < maxDeclarations {
				seen[id] = true
				all = append(all, a.declaration(name))
			}
		}
	}
	return all
}

// Look returns when the core looks whether a process has a device open, with merged settings.
func (m *Manifest) Look(settings json.RawMessage) inventory.Look {
	look := inventory.Look{Reset: m.InUse == InUseCore}
	value, err := m.filled(settings)
	if err != nil {
		return look // Rights reports it
	}
	for _, l := range []struct {
		when When
		at   *bool
	}{{m.look.Reset, &look.Reset}, {m.look.Report, &look.Report}, {m.look.Fail, &look.Fail}} {
		*l.at = *l.at || len(l.when) > 0 && holds(value, l.when)
	}
	return look
}

// resolver collects the entries of lists.
type resolver struct {
	name     string
	settings any
	lists    map[kind]map[string]bool
	gids     []uint32
	ungiven  []FieldError
	errs     FieldErrors
}

func (r *resolver) sorted(k kind) []string { return slices.Sorted(maps.Keys(r.lists[k])) }

// entry adds what an entry stands for to a list.
func (r *resolver) entry(k kind, e Entry) {
	if len(r.errs) > 0 && len(r.lists[k]) >= maxEntries {
		return
	}
	if e.Reference == nil {
		r.add(k, e.Text, "")
		return
	}
	resolved, err := e.Reference.resolve(r.settings, k.isPath())
	if err != nil {
		r.errs = append(r.errs, FieldError{e.Reference.Setting, err.Error()})
		return
	}
	for _, p := range resolved {
		switch {
		case k == nodes && strings.HasPrefix(p.text, "/sys/"): // a kind may match directories there, which are no nodes
		case p.isOpen:
			r.leave(p.at, "%q names no device in particular: containers get what allow.%s has of it", p.text, k.field())
		case inventory.IsDisk(inventory.Use(k), p.text):
			r.leave(p.at, "%q is a disk: containers get it only if allow.%s has exactly this path", p.text, k.field())
		default:
			r.add(k, p.text, p.at)
		}
	}
}

// leave reports a setting that asks for what no manifest gives.
func (r *resolver) leave(at, format, entry, field string) {
	left := FieldError{at, fmt.Sprintf(format, text.Printable(entry, 128), field)}
	if len(r.ungiven) < maxEntries && !slices.Contains(r.ungiven, left) {
		r.ungiven = append(r.ungiven, left)
	}
}

func (r *resolver) add(k kind, entry, at string) {
	if r.lists[k] == nil {
		r.lists[k] = map[string]bool{}
	}
	if r.lists[k][entry] {
		return
	}
	owner := r.name
	if at != "" {
		owner = inventory.AnyBackend
	}
	if problem := k.problem(entry, owner); problem != "" && at != "" && len(r.errs) < maxEntries {
		r.errs = append(r.errs, FieldError{at, fmt.Sprintf("%q in %s %s", text.Printable(entry, 128), k.field(), problem)})
	}
	if len(r.lists[k]) == maxEntries {
		r.errs = append(r.errs, FieldError{at, fmt.Sprintf("%s gets more than %d entries", k.field(), maxEntries)})
	}
	if len(r.lists[k]) <= maxEntries {
		r.lists[k][entry] = true
	}
}

// errTooMany is for a reference that stands for too many or too long texts.
var errTooMany = errors.New("stands for too many entries, or for one that is too long")
