// Command bench measures the unmodified agent with its backends: what kubelet's calls
// take, what the node pays at rest, and so on, a section each (sections.go). Where a
// limit is a ratio, the floor is of the same run, most often a bare gRPC server on a unix
// socket in a process of its own, in turns with the agent.
//
//	go run ./test/bench -bin bin                    # everything
//	go run ./test/bench -bin bin -only allocate     # these sections
//	go run ./test/bench -bin bin -quick             # only checks that it works; writes nothing
//
// It prints each section's table, and writes the tables into README.md between two markers.
// Sections that are not measured keep theirs.
// It fails if a section could not be measured, not if a limit is missed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/test/bench/rig"
)

func main() {
	ok, err := rig.Play(sections)
	if !ok {
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	bin := flag.String("bin", "bin", "`dir`ectory of the built programs")
	only := flag.String("only", "", "measure these `sections`, with commas between: "+names())
	quick := flag.Bool("quick", false, "check with few samples that everything works; write nothing")
	readme := flag.String("readme", "test/bench/README.md", "`file` into which the tables are written")
	flag.Parse()
	if err := rig.FlagsOnly(flag.Args()); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	setup := &rig.Setup{Quick: *quick}
	if setup.Bin, err = filepath.Abs(*bin); err != nil {
		return err
	}
	var errs []error
	for _, s := range chosen {
		if err := measure(s, setup, *readme); err != nil {
			errs = append(errs, fmt.Errorf("section %s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

// measure measures a section, and prints and writes its table.
func measure(s rig.Section, setup *rig.Setup, readme string) error {
	machine, err := rig.Machine()
	if err != nil {
		return err
	}
	fmt.Printf("\n%s: %s\n%s\n\n", s.Name, s.About, machine)
	figures, err := s.Measure(setup)
	if err != nil {
		return err
	}
	rig.Show(figures)
	for _, f := range figures {
		if !f.Met() {
			fmt.Printf("MISSED: %s: %s\n", s.Name, f.What)
		}
	}
	if setup.Quick {
		return nil
	}
	return writeTable(readme, s, machine, figures)
}

func names() string {
	all := make([]string, len(sections))
	for i, s := range sections {
		all[i] = s.Name
	}
	return strings.Join(all, ",")
}

// choose returns the sections of a list of names, in the table's order; all for "".
func choose(only string) ([]rig.Section, error) {
	if only == "" {
		return sections, nil
	}
	wanted := strings.Split(only, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(sections, func(s rig.Section) bool { return s.Name == name }) {
			return nil, fmt.Errorf("unknown section %q: the sections are %s", name, names())
		}
	}
	var chosen []rig.Section
	for _, s := range sections {
		if slices.Contains(wanted, s.Name) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}
