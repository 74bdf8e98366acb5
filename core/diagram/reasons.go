package diagram

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// partWords are the names of the parts of a score.
var partWords = map[string]string{
	"physicalDevices": "physical devices",
	"pairsTogether":   "pairs on one physical device",
	"repeatedDevices": "pairs of replicas of one device",
	"sumOfLinks":      "sum of the links",
	"weakestLink":     "weakest link",
	"numaNodes":       "NUMA nodes",
	"load":            "units in use on the same devices",
	"linksLeft":       "links of the units that are left",
}

// Reasons prints a choice, the reasons for it and the runner-up.
func Reasons(w io.Writer, c *Choice) {
	fmt.Fprintf(w, "%d of %s, policy %s; %d of %s available\n", c.Size, c.Resource, c.Policy, len(c.Available), count(c.Units, "unit"))
	for _, note := range c.Notes {
		fmt.Fprintln(w, note+".")
	}
	if c.Missing > 0 {
		fmt.Fprintf(w, "%d too few: a container that requests %d cannot be allocated now.\n", c.Missing, c.Size)
	}
	fmt.Fprintln(w)
	lines := [][]string{{"chosen", names(c.Chosen.Units)}}
	if c.RunnerUp != nil {
		lines = append(lines, []string{"runner-up", instead(c.Chosen.Units, c.RunnerUp.Units)})
	}
	align(w, lines)
	fmt.Fprintln(w)
	if len(c.Compared) > 0 {
		c.table(w)
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, c.verdict())
	fmt.Fprintln(w, "Links of the chosen set: "+c.Chosen.Pairs()+".")
	if c.RunnerUp != nil && !slices.Equal(c.Chosen.Links, c.RunnerUp.Links) {
		fmt.Fprintln(w, "Links of the runner-up: "+c.RunnerUp.Pairs()+".")
	}
	fmt.Fprintf(w, "What remains available: %s.\n", count(c.Chosen.Left.Units, "unit"))
	fmt.Fprintln(w, c.method())
}

// table prints the parts of the scores, side by side.
func (c *Choice) table(w io.Writer) {
	header := []string{"", "CHOSEN", "BETTER IS"}
	if c.RunnerUp != nil {
		header = []string{"", "CHOSEN", "RUNNER-UP", "BETTER IS", ""}
	}
	lines := [][]string{header}
	for i, part := range c.Compared {
		line := []string{fmt.Sprintf("%2d %s", i+1, partName(part.Part)), partValue(part.Part, part.Chosen)}
		if part.RunnerUp != nil {
			mark := ""
			if part.Part == c.Decides {
				mark = "<- decides"
			}
			line = append(line, partValue(part.Part, *part.RunnerUp), part.Better, mark)
		} else {
			line = append(line, part.Better)
		}
		lines = append(lines, line)
	}
	align(w, lines)
}

func partName(name string) string {
	if text, ok := partWords[name]; ok {
		return text
	}
	return name // the agent is newer than the command
}

func partValue(name string, value int64) string {
	if name == "weakestLink" && value < 0 {
		return "no pair"
	}
	return strconv.FormatInt(value, 10)
}

// verdict explains why the chosen set is better.
func (c *Choice) verdict() string {
	switch {
	case c.RunnerUp == nil && c.Partial:
		return "The time did not suffice to search for a runner-up."
	case c.RunnerUp == nil && c.Method == "order":
		return "There is nothing to choose: no other set of available units contains what must be included."
	case c.RunnerUp == nil:
		return "There is no other set of that size."
	case c.Decides == "ids" && c.Policy == "none":
		return "The policy compares nothing: this set has the lowest IDs, and any other is as good."
	case c.Decides == "ids":
		return "The runner-up is equal in all parts; the order of the IDs decides."
	}
	text := "The chosen set is better"
	if c.RunnerUpBetter {
		text = "The runner-up is better (only the search for a runner-up found it)"
	}
	for i, part := range c.Compared {
		if part.Part != c.Decides || part.RunnerUp == nil {
			continue
		}
		text += fmt.Sprintf(" in part %d, the %s: %s against %s, where %s is better", i+1, partName(part.Part),
			partValue(part.Part, part.Chosen), partValue(part.Part, *part.RunnerUp), part.Better)
		if i > 0 {
			text += "; the parts before it are equal"
		}
	}
	if c.Partial {
		text += ". The time did not suffice to compare all others: a better runner-up may exist"
	}
	return text + "."
}

// Pairs describes the links within a set.
func (s *Set) Pairs() string {
	if len(s.Links) == 0 {
		return "none, because it is one device"
	}
	texts := make([]string, len(s.Links))
	for i, p := range s.Links {
		what := "without a link both ways"
		if p.Kind != "" {
			what = words(Link{Kind: p.Kind, Count: p.Count, Distance: p.Distance, Path: p.Path})
		}
		texts[i] = fmt.Sprintf("%s (%s)", count(p.Pairs, "pair"), what)
	}
	return strings.Join(texts, ", ")
}

// method describes how the set was found, and whether another may be better.
func (c *Choice) method() string {
	switch c.Method {
	case "order":
		return "How: found without comparing."
	case "enumeration":
		return "How: found by comparing all sets of that size; no other set is better."
	case "hierarchy":
		return "How: found from the best sets of the parts of the hierarchy; no other set is better."
	}
	return "How: built unit by unit from several starts; with this many units not all sets are compared, so another may be better."
}

// names returns IDs on one line.
func names(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(ids, " ")
}

// instead returns a set, or how it differs from another if it is large.
func instead(chosen, other []string) string {
	const short = 8
	if len(other) <= short {
		return names(other)
	}
	without := func(all, gone []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(gone, id) })
	}
	return fmt.Sprintf("%s instead of %s", names(without(other, chosen)), names(without(chosen, other)))
}
