package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/suggestion"
	"github.com/accelmux/accelmux/core/text"
)

const (
	maxVendor       = 64
	maxClasses      = 64
	maxParameters   = 32
	maxDeclarations = 1024
	maxText         = 512 // of a reason or description, in bytes
	maxEntries      = 256 // of a list after resolving
	maxEntry        = 4095
	maxVariable     = 256 // of a variable's name
	maxWildcards    = 2   // of a path
)

var (
	dnsLabel  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	className = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	// semantic is the grammar of semver.org, version 2.0.0.
	semantic    = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
	identifier  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,31}$`)
	declared    = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]{0,62}/)?([A-Za-z_][A-Za-z0-9_]{0,31}\*?|\*)$`)
	pciID       = regexp.MustCompile(`^[0-9a-f]{4}$`)
	pciClass    = regexp.MustCompile(`^([0-9a-f]{2}){1,3}$`)
	nodeLabel   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?[.*]?\*?$`)
	labelPrefix = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,98}[a-z0-9])?$`)
	// capability is a name as in capabilities(7), and callGroup one of systemd.exec(5).
	capability = regexp.MustCompile(`^CAP_[A-Z0-9_]{1,60}$`)
	callGroup  = regexp.MustCompile(`^@[a-z0-9-]{1,60}$`)
	// variable is used with maxVariable: the limit {0,254} takes Go 0.3 ms to compile, at every start.
	variable = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]*\*?|\*)$`)
)

// checker collects what is wrong with a manifest.
type checker struct {
	file      string
	positions config.Positions
	errs      config.Errors
}

func (c *checker) fail(field, format string, args ...any) {
	c.errs = append(c.errs, config.Error{File: c.file, Position: c.positions.Of(field), Field: field, Message: fmt.Sprintf(format, args...)})
}

// oneOf reports a value that is not one of those possible.
func (c *checker) oneOf(field, got string, possible ...string) {
	if !slices.Contains(possible, got) {
		c.fail(field, "must be one of %s, is %q%s", strings.Join(possible, ", "), text.Printable(got, 64), suggestion.DidYouMean(got, possible))
	}
}

func (c *checker) printable(field, got string, most int) {
	if got == "" || len(got) > most || got != text.Printable(got, most) {
		c.fail(field, "must be 1 to %d printable bytes, is %q", most, text.Printable(got, 64))
	}
}

// manifest checks a manifest, and fills its description.
func (c *checker) manifest(m *Manifest, doc *document) {
	c.oneOf("apiVersion", doc.APIVersion, APIVersion)
	c.oneOf("kind", doc.Kind, Kind)
	c.description(m, doc)
	if len(doc.Protocols) == 0 {
		c.fail("protocols", "must list the versions of the contract, such as [1]")
	}
	if m.Description.SettingsSchema != "" {
		if err := json.Unmarshal([]byte(m.Description.SettingsSchema), &m.schema); err != nil {
			c.fail("settings", "the schema is not JSON: %s", text.Printable(err.Error(), 256))
		}
	}
	c.inUse(m)
	c.classes(m)
	c.parameters(m)
	c.attributes(m)
	c.hardware(doc)
	for i, p := range doc.PausedWhile {
		at := fmt.Sprintf("pausedWhile[%d]", i)
		if !nodeLabel.MatchString(p.Label) {
			c.fail(at+".label", `%q is not a node label, nor the beginning of one and "*"`, text.Printable(p.Label, 128))
		}
		c.patterns(at+".values", p.Values)
		if len(p.Values) == 0 {
			c.fail(at, "values must list the label's values")
		}
	}
	c.groups(m)
}

func (c *checker) description(m *Manifest, doc *document) {
	d := &m.Description
	d.Name, d.Vendor, d.Version = doc.Name, doc.Vendor, doc.Version
	if !dnsLabel.MatchString(d.Name) {
		c.fail("name", "%q is not a DNS label", text.Printable(d.Name, 64))
	}
	c.printable("vendor", d.Vendor, maxVendor)
	if len(d.Version) > maxVendor || !semantic.MatchString(d.Version) {
		c.fail("version", "%q is not a semantic version such as 1.4.0", text.Printable(d.Version, 64))
	}
	if len(doc.Classes) == 0 || len(doc.Classes) > maxClasses {
		c.fail("classes", "there are %d device classes; 1 to %d are possible", len(doc.Classes), maxClasses)
	}
	for i, class := range doc.Classes {
		name, at := class.Name, fmt.Sprintf("classes[%d]", i)
		switch {
		case name == "holder":
			c.fail(at, "holder is reserved for the core")
		case !className.MatchString(name):
			c.fail(at, "%q is not a lower-case letter, then lower-case letters, digits or dashes", text.Printable(name, 64))
		case slices.Contains(d.Classes, name):
			c.fail(at, "%s is there twice", name)
		}
		d.Classes = append(d.Classes, name)
	}
	abilities := map[string]*bool{"prepare": &d.Prepare, "release": &d.Release, "reset": &d.Reset, "sample": &d.Sample}
	for i, name := range doc.Abilities {
		c.oneOf(fmt.Sprintf("abilities[%d]", i), name, slices.Sorted(maps.Keys(abilities))...)
		if has := abilities[name]; has != nil {
			*has = true
		}
	}
}

// classes checks the conditions of classes, and the prefixes of labels.
func (c *checker) classes(m *Manifest) {
	for i, class := range m.classes {
		at := fmt.Sprintf("classes[%d]", i)
		c.when(m, at+".when", class.When)
		c.when(m, at+".potential", class.Potential)
		if p := class.PreparedFor; p != nil {
			c.path(m, at+".preparedFor.setting", p.Setting)
			c.when(m, at+".preparedFor.when", p.When)
		}
	}
	for i, prefix := range m.labels {
		if !labelPrefix.MatchString(prefix) {
			c.fail(fmt.Sprintf("labels[%d]", i), "%q is not the domain of a label, before the slash", text.Printable(prefix, 128))
		}
	}
}

// values checks what an attribute, whose path is at, can be, and the classes of the devices that have it.
func (c *checker) values(m *Manifest, at string, a Attribute) {
	if len(a.Values) > 0 && a.Kind != string(inventory.StringKind) {
		c.fail(at+".values", "only an attribute of the kind string has values")
	}
	for i, value := range a.Values {
		if value.Reference != nil {
			c.reference(m, fmt.Sprintf("%s.values[%d]", at, i), value.Reference)
		} else {
			c.printable(fmt.Sprintf("%s.values[%d]", at, i), value.Text, maxVendor)
		}
	}
	for i, class := range a.Classes {
		of := fmt.Sprintf("%s.classes[%d]", at, i)
		if !slices.Contains(m.Description.Classes, class.Name) {
			c.fail(of, "%q is none of the classes%s", text.Printable(class.Name, 64), suggestion.DidYouMean(class.Name, m.Description.Classes))
		}
		c.when(m, of+".when", class.When)
	}
}

// inUse checks who looks whether a process has a device open, and when.
func (c *checker) inUse(m *Manifest) {
	d := &m.Description
	if m.InUse == "" {
		c.fail("inUse", "is required: who looks before a reset whether a process has the device open: core (the agent), backend (the program asks the driver), or none (without nodes and reset)")
	} else {
		c.oneOf("inUse", string(m.InUse), string(InUseCore), string(InUseBackend), string(InUseNone))
	}
	if m.InUse == InUseNone && d.Reset {
		c.fail("inUse", "none is for backends without nodes and without reset, which is in abilities")
	}
	for _, l := range []struct {
		name, ability string
		when          When
		has           bool
	}{{"reset", "reset", m.look.Reset, d.Reset}, {"report", "prepare", m.look.Report, d.Prepare}, {"fail", "prepare", m.look.Fail, d.Prepare}} {
		at := "look." + l.name
		if _, is := c.positions[at]; !is {
			continue
		}
		c.when(m, at, l.when)
		switch {
		case len(l.when) == 0:
			c.fail(at, "must have a condition; leave it out, and the agent does not look")
		case m.InUse == InUseNone:
			c.fail(at, "has the agent look for processes that have a node open, and with inUse: none there are no nodes")
		case l.name == "reset" && m.InUse == InUseCore:
			c.fail(at, "is only for inUse: backend: with inUse: core the agent looks before each reset")
		case !l.has:
			c.fail(at, "has the agent look before the program's %s, which is not among the abilities", l.ability)
		}
	}
}

// parameters fills the properties of the schema of parameters, sorted by name.
func (c *checker) parameters(m *Manifest) {
	var schema struct {
		Type       string
		Properties map[string]struct {
			Description string
			Type        any
		}
	}
	d := &m.Description
	if d.ParametersSchema == "" {
		return
	}
	if err := json.Unmarshal([]byte(d.ParametersSchema), &schema); err != nil {
		c.fail("parameters", "the schema cannot be read: %s", text.Printable(err.Error(), 256))
		return
	}
	if n := len(schema.Properties); schema.Type != "object" || n == 0 || n > maxParameters {
		c.fail("parameters", "the schema has the type %q and %d properties; it must be an object with 1 to %d", text.Printable(schema.Type, 64), n, maxParameters)
		return
	}
	if !d.Prepare {
		c.fail("parameters", "they are those of Prepare, which is not in abilities")
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		if !identifier.MatchString(name) {
			c.fail("parameters", "the parameter %q is not a C identifier of at most 32 characters", text.Printable(name, 64))
		}
		if p.Description == "" || len(p.Description) > maxText || p.Description != text.Printable(p.Description, maxText) {
			c.fail("parameters", "the description of %s must be 1 to %d printable bytes", text.Printable(name, 64), maxText)
		}
		several, ok := p.Type.([]any)
		isText := p.Type == nil || p.Type == "string" || ok && slices.Contains(several, any("string"))
		d.Parameters = append(d.Parameters, inventory.Parameter{Name: name, Description: p.Description, IsText: isText})
	}
}

var attributeKinds = []string{"", "string", "int", "bool", "version", "strings", "ints", "bools", "versions", "capacity"}

func (c *checker) attributes(m *Manifest) {
	if n := len(m.attributes); n > maxDeclarations {
		c.fail("attributes", "there are %d; at most %d are possible", n, maxDeclarations)
	}
	seen := map[string]bool{}
	for i, a := range m.attributes {
		at := fmt.Sprintf("attributes[%d]", i)
		c.oneOf(at+".kind", a.Kind, attributeKinds...)
		c.printable(at+".about", a.About, maxText)
		c.when(m, at+".when", a.When)
		c.values(m, at, a)
		id := a.Name + "\x00" + map[bool]string{true: a.Kind}[a.Kind == "capacity"]
		switch {
		case (a.Name == "") == (a.Keys == ""):
			c.fail(at, "must have a name, or the keys of a map in the settings")
		case a.Keys != "":
			c.path(m, at+".keys", a.Keys)
		case !declared.MatchString(a.Name):
			c.fail(at+".name", `%q is neither a name nor the beginning of one and "*"`, text.Printable(a.Name, 128))
		case seen[id]:
			c.fail(at+".name", "%s is there twice", a.Name)
		default:
			if a.Name != "*" {
				m.Description.AttributePriority = append(m.Description.AttributePriority, a.Name)
			}
			if a.When == nil {
				m.Description.Attributes = append(m.Description.Attributes, a.declaration(a.Name))
			}
		}
		seen[id] = a.Name != ""
	}
}

func (a Attribute) declaration(name string) inventory.Declaration {
	return inventory.Declaration{Name: name, Kind: inventory.AttributeKind(a.Kind), Description: a.About}
}

func (c *checker) hardware(doc *document) {
	for i, h := range doc.Hardware {
		at := fmt.Sprintf("hardware[%d]", i)
		if h.Vendor == "" && h.Class == "" {
			c.fail(at, "must have a vendor or a class")
		}
		for field, id := range map[string]string{"vendor": h.Vendor, "device": h.Device} {
			if id != "" && !pciID.MatchString(id) {
				c.fail(at+"."+field, "%q is not 4 lower-case hexadecimal digits; put them in quotes", text.Printable(id, 64))
			}
		}
		if h.Class != "" && !pciClass.MatchString(h.Class) {
			c.fail(at+".class", "%q is not 2, 4 or 6 lower-case hexadecimal digits", text.Printable(h.Class, 64))
		}
		c.printable(at+".name", h.Name, maxVendor)
	}
}

func (c *checker) patterns(field string, all []string) {
	for i, pattern := range all {
		if _, err := path.Match(pattern, ""); err != nil {
			c.fail(fmt.Sprintf("%s[%d]", field, i), "%q is not a pattern of path.Match", text.Printable(pattern, 128))
		}
	}
}

// groups checks the literal entries and the references of all groups.
func (c *checker) groups(m *Manifest) {
	for field, groups := range map[string][]group{"process": processGroups(m.Process), "containers": containerGroups(m.Containers)} {
		for i, g := range groups {
			at := fmt.Sprintf("%s[%d]", field, i)
			c.printable(at+".why", g.why, maxText)
			c.when(m, at+".when", g.when)
			for _, gid := range g.gids {
				if gid < 1 || gid >= 1<<32-1 {
					c.fail(at+".gids", "%d is not possible: root's group is given to nobody", gid)
				}
			}
			for _, l := range g.lists {
				if len(l.entries) > maxEntries {
					c.fail(at+"."+l.kind.field(), "there are %d entries; at most %d are possible", len(l.entries), maxEntries)
				}
				for j, e := range l.entries {
					c.entry(m, fmt.Sprintf("%s.%s[%d]", at, l.kind.field(), j), l.kind, e)
				}
			}
		}
	}
	slices.SortStableFunc(c.errs, func(a, b config.Error) int { return a.Line - b.Line })
}

func (c *checker) entry(m *Manifest, at string, k kind, e Entry) {
	if e.Reference == nil {
		if problem := k.problem(e.Text, m.Description.Name); problem != "" {
			c.fail(at, "%q %s", text.Printable(e.Text, 128), problem)
		}
		return
	}
	c.reference(m, at, e.Reference)
}
