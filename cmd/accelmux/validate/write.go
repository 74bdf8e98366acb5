package validate

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/status/listing"
)

// Err returns the errors as one error, nil if there are none.
func (r Result) Err() error {
	var all config.Errors
	for _, f := range r.Errors {
		all = append(all, r.located(f))
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func (r Result) located(f Finding) config.Error {
	return config.Error{File: r.File, Position: config.Position{Line: f.Line, Column: f.Column}, Field: f.Field, Message: f.Message}
}

// Write prints all but the errors for people.
func (r Result) Write(w io.Writer) {
	for _, f := range r.Warnings {
		at := r.located(f)
		fmt.Fprintf(w, "%swarning: %s\n", config.Error{File: at.File, Position: at.Position}, config.Error{Field: at.Field, Message: at.Message})
	}
	for _, u := range r.Unchecked {
		fmt.Fprintf(w, "not checked: the settings of %s, and the names of its attributes: %s\n", u.Command, u.Why)
	}
	if len(r.Errors) > 0 {
		return
	}
	for _, p := range r.Profiles {
		fmt.Fprintf(w, "%s: profile %s is valid (backends: %d, resources: %d)\n", r.File, p.Name, p.Backends, p.Resources)
	}
	if r.Changes != nil {
		r.Changes.write(w)
	}
}

// write prints the changes for people.
func (c *Changes) write(w io.Writer) {
	fmt.Fprintf(w, "\nOn node %s, with its devices as they are now", c.Node)
	if c.InForce != c.Profile {
		fmt.Fprintf(w, " (profile %s is in force, %s would be)", cmp.Or(c.InForce, "none"), c.Profile)
	}
	fmt.Fprintln(w, ":")
	if len(c.Resources)+len(c.Devices) == 0 {
		fmt.Fprintln(w, "  no resource changes, and no device moves")
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if len(c.Resources) > 0 {
		fmt.Fprintln(table, "\nRESOURCE\tAPI\tDEVICES\tUNITS")
	}
	for _, r := range c.Resources {
		a, b := cmp.Or(r.Now, &Count{}), cmp.Or(r.Then, &Count{})
		what := ""
		switch {
		case r.Now == nil:
			what = "\tappears"
		case r.Then == nil:
			what = "\tvanishes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s%s\n", r.Name, change(a.API, b.API), change(a.Devices, b.Devices), change(a.Units, b.Units), what)
	}
	held := 0
	if len(c.Devices) > 0 {
		fmt.Fprintln(table, "\nDEVICE\tFROM\tTO\tHELD BY")
	}
	for _, m := range c.Devices {
		if len(m.Holders) > 0 {
			held++
		}
	}
	for _, m := range listing.FoldPartitions(c.Devices, part) {
		fmt.Fprintf(table, "%s/%s\t%s\t%s\t%s\n", append([]any{m.Backend, m.ID}, m.cells()...)...)
	}
	_ = table.Flush() // an error of w comes again
	switch {
	case held == 1:
		fmt.Fprintln(w, "\n1 of these devices is allocated, and moves when its pod or claim has ended.")
	case held > 1:
		fmt.Fprintf(w, "\n%d of these devices are allocated, and move when their pods or claims have ended.\n", held)
	}
	for _, name := range c.Unknown {
		fmt.Fprintf(w, "\nNot known: the devices of backend %s, which does not run on the node now.\n", name)
	}
	for _, p := range c.Problems {
		fmt.Fprintf(w, "\nproblem: device %s: %s\n", p.Device, p.Message)
	}
	fmt.Fprintln(w, "\nSettings of a backend may also change which devices it lists: that shows when it runs.")
}

// cells are those of a row of the table after the device's name.
func (m Move) cells() []any {
	return []any{cmp.Or(m.place(m.From, m.FromAPI), "-"), cmp.Or(m.place(m.To, m.ToAPI), "-"), cmp.Or(listing.HoldersText(m.Holders), "-")}
}

// part is for [listing.FoldPartitions].
func part(m *Move) (parent string, id *string, cells []any) {
	return m.Parent, &m.ID, append(m.cells(), m.Backend)
}

// place is a resource, with its API where that changes.
func (m Move) place(resource, api string) string {
	if resource == "" || m.FromAPI == m.ToAPI || m.From == "" || m.To == "" {
		return resource
	}
	return resource + " (" + api + ")"
}

// change is what changes, or the one value.
func change[T comparable](now, then T) string {
	var none T
	switch {
	case now == then || then == none && fmt.Sprint(then) == "":
		return fmt.Sprint(now)
	case fmt.Sprint(now) == "":
		return fmt.Sprint(then)
	}
	return fmt.Sprintf("%v -> %v", now, then)
}
