package backends

import (
	"fmt"
	"io"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/manifest"
)

// WriteList writes a table of programs, with tabs between its columns.
func WriteList(w io.Writer, all []Summary) {
	line := func(cells ...string) {
		for i, cell := range cells {
			if cell == "" {
				cells[i] = "-"
			}
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // w keeps its error
	}
	line("PROGRAM", "VERSION", "VENDOR", "USED BY", "PROBLEM")
	for _, s := range all {
		line(s.Program, s.Version, s.Vendor, strings.Join(s.UsedBy, ", "), s.Problem)
	}
}

// Write writes a program with its manifest for people.
func (d *Detail) Write(w io.Writer) {
	p := &printer{w: w}
	p.line("%s: %s %s, vendor %s", d.Program, d.Name, d.Version, d.Vendor)
	p.field("manifest", d.Manifest)
	p.field("checksum", d.Checksum)
	p.field("manifestChecksum", d.ManifestChecksum)
	p.field("classes", strings.Join(d.Classes, ", "))
	p.field("abilities", strings.Join(d.Abilities, ", "))
	p.field("in use", string(d.InUse))
	p.field("hardware", d.Hardware...)
	p.field("paused while", d.PausedWhile...)
	for i, a := range d.Attributes {
		kind := string(a.Kind)
		if kind == "" {
			kind = "any kind"
		}
		p.field(map[bool]string{true: "attributes"}[i == 0], fmt.Sprintf("%s (%s): %s", a.Name, kind, a.Description))
	}
	for _, u := range d.Uses {
		u.write(p)
	}
}

func (u *Use) write(p *printer) {
	p.line("")
	if u.Backend == "" {
		p.line("No backend of the configuration has it. Without settings:")
	} else {
		p.line("Backend %s of profile %s, with declared: %s:", u.Backend, u.Profile, u.Declared)
	}
	if u.Problem != "" {
		p.line("  the settings are refused: %s", strings.ReplaceAll(u.Problem, "\n", "\n    "))
	}
	process, containers := "The process gets:", "Containers may get:"
	if u.Declared == config.RefuseDeclared {
		process, containers = "The process asks for, and does not get unless allow has it:", "Containers would get, and do not unless allow has it:"
	}
	if len(u.Looks) > 0 {
		p.line("  The agent looks whether a process has a device open, before: %s", strings.Join(u.Looks, ", "))
	}
	p.groups(process, u.Process)
	p.groups(containers, u.Containers)
	for i, missing := range u.Ungiven {
		if i == 0 {
			p.line("  Only allow gives:")
		}
		p.line("    %s", missing)
	}
	p.allowed("The configuration gives the process by allow.process:", u.AllowProcess)
	p.allowed("The configuration gives containers by allow:", u.Allow)
}

// printer writes lines; the writer keeps its error.
type printer struct{ w io.Writer }

func (p *printer) line(format string, args ...any) { _, _ = fmt.Fprintf(p.w, format+"\n", args...) }

// field writes values below each other.
func (p *printer) field(name string, values ...string) {
	for _, value := range values {
		p.line("  %-18s%s", name, value)
		name = ""
	}
}

func (p *printer) groups(title string, groups []manifest.Explanation) {
	if len(groups) == 0 {
		return
	}
	p.line("  %s", title)
	for _, g := range groups {
		if !g.Holds || len(g.Lists) == 0 {
			p.line("    %s (not with these settings)", g.Why)
			continue
		}
		p.line("    %s", g.Why)
		p.lists(g.Lists)
	}
}

func (p *printer) allowed(title string, lists []manifest.ExplainedList) {
	if len(lists) > 0 {
		p.line("  %s", title)
		p.lists(lists)
	}
}

func (p *printer) lists(lists []manifest.ExplainedList) {
	for _, l := range lists {
		name := l.Field
		for _, entry := range l.Entries {
			p.line("      %-16s%s", name, entry)
			name = ""
		}
		for _, gid := range l.GIDs {
			p.line("      %-16s%d", name, gid)
			name = ""
		}
	}
}
