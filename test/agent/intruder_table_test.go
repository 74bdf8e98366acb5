package agent

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/hostile/intruder"
)

var update = flag.Bool("update", false, "write the table of docs/security.md")

// The measures of core/sandbox that need no right of the agent; those of the second set need Landlock.
var (
	withoutLandlock = []string{"capabilities", "descriptors", "limits", "network", "privileges", "systemCalls"}
	ofLandlock      = []string{"files", "ioctls", "processes"}
)

// place is where an agent and an intruder run.
type place struct {
	// column is that of the table; "" if it has none.
	column   string
	cage     cage
	mode     string
	measures []string
}

// places are by what they are. In a pod of the chart and under the systemd unit the agent has no capability
// and can gain none.
var places = map[string]place{
	"no sandbox, all capabilities": {mode: "off"},
	"no sandbox, no capability":    {cage: cage{Drop: allCapabilities(), PIDs: true}, mode: "off", measures: []string{"capabilities"}},
	"sandbox, all capabilities":    {mode: "auto", measures: slices.Concat(withoutLandlock, ofLandlock, []string{"mounts", "user"})},
	"sandbox, no capability": {
		column: "here", cage: cage{Drop: allCapabilities(), PIDs: true, NoNewPrivs: true}, mode: "auto", measures: slices.Concat(withoutLandlock, ofLandlock),
	},
	"sandbox, no capability, no Landlock": {
		column: "without Landlock", cage: cage{Drop: allCapabilities(), PIDs: true, NoNewPrivs: true, NoLandlock: true}, mode: "auto", measures: withoutLandlock,
	},
}

// refuses reports whether a measure that is in force refuses an attempt.
func (p place) refuses(a intruder.Attempt) bool {
	return slices.ContainsFunc(p.measures, func(m string) bool { return slices.Contains(strings.Fields(a.By), m) })
}

// The table in docs/security.md is that of the attempts and of the measures that TestIntruder compares with
// what it measures.
func TestTableOfAttempts(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../docs/security.md", "<!-- attempts: go test ./test/agent -run TestTableOfAttempts -update -->\n", "<!-- end of attempts -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, whole := strings.Cut(rest, end)
	if !ok || !whole {
		t.Fatalf("%s has no place for the table", file)
	}
	want := tableOfAttempts()
	switch {
	case table == want:
	case *update:
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not current: run the command in it; the table is\n%s", file, want)
	}
}

func tableOfAttempts() string {
	var b strings.Builder
	sandboxed, old := places["sandbox, no capability"], places["sandbox, no capability, no Landlock"]
	for _, g := range intruder.Groups() {
		fmt.Fprintf(&b, "\n| %s: it tries to | refused by | without Landlock |\n| --- | --- | --- |\n", g.Title)
		for _, a := range g.Attempts {
			var by []string
			for _, m := range strings.Fields(a.By) {
				if slices.Contains(sandboxed.measures, m) {
					by = append(by, m)
				}
			}
			refused, older := strings.Join(by, ", "), "**possible**"
			switch {
			case a.Instead != "":
				refused, older = a.Instead, "the same"
			case len(by) == 0:
				refused = "**possible**"
			case old.refuses(a):
				older = "refused"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", a.What, refused, older)
		}
	}
	return b.String() + "\n"
}
