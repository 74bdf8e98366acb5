package allocator

import (
	"fmt"
	"io"
	"strings"

	"github.com/accelmux/accelmux/core/diagram"
)

// Write prints explanations, for a tabwriter.
func Write(w io.Writer, all []Explanation) {
	for i, e := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if len(e.Devices) == 0 {
			fmt.Fprintf(w, "Claim %s stays Pending: its requests and constraints cannot be satisfied with the free devices of this node.\n", e.Claim)
			continue
		}
		fmt.Fprintf(w, "Claim %s gets\n\n", e.Claim)
		fmt.Fprintln(w, "REQUEST\tDEVICE\tRESOURCE\tDRIVER")
		for _, d := range e.Devices {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", d.Request, d.ID, d.Resource, d.Driver)
		}
		for _, l := range e.Links {
			fmt.Fprintln(w)
			l.write(w)
		}
	}
}

func (l *Links) write(w io.Writer) {
	fmt.Fprintf(w, "Links among the devices of %s: %s.\n", l.Resource, l.Chosen.text())
	if l.Best == nil {
		fmt.Fprintln(w, "No free devices have a better weakest link.")
		return
	}
	fmt.Fprintf(w, "Better would be %s: %s.\n", strings.Join(l.Best.Devices, " "), l.Best.text())
	switch {
	case l.WithConstraint != nil:
		fmt.Fprintf(w, "With the constraint matchAttribute: %s the claim gets %s: %s.\n", l.Constraint, strings.Join(l.WithConstraint.Devices, " "), l.WithConstraint.text())
	case l.Constraint != "":
		fmt.Fprintf(w, "With the constraint matchAttribute: %s the claim stays Pending until a link group has enough free devices.\n", l.Constraint)
	}
}

func (s *Set) text() string {
	links := diagram.Set{Links: s.Links}
	return fmt.Sprintf("%s; the weakest has %d points, all have %d", links.Pairs(), s.WeakestLink, s.SumOfLinks)
}
