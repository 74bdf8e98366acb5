package agent

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/hostile/intruder"
)

var update = flag.Bool("update", false, "write the table of docs/security.md")

// The measures of core/sandbox that need no right of the agent; those of the second set need Landlock.
var (
	withoutLandlock = []string{"capabilities", "descriptors", "limits", "network", "privileges", "systemCalls"}
	ofLandlock      = []string{"files", "ioctls", "processes"}
)

// inOrder joins and sorts sets of measures.
func inOrder(sets ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(sets...))) }

// place is the environment in which an agent and an intruder run, and the measures that are in force there.
type place struct {
	cage     cage
	mode     string
	measures []string
}

// The places of the table. In a pod of the chart the agent has no capability and can gain none; under the systemd unit it
// has those that give backends users of their own.
const (
	inService   = "sandbox, capabilities of the unit"
	inPod       = "sandbox, no capability"
	onOldKernel = "sandbox, no capability, no Landlock"
)

var unitCapabilities = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_CHOWN, unix.CAP_KILL, unix.CAP_DAC_OVERRIDE, unix.CAP_SYS_PTRACE}

var places = map[string]place{
	"no sandbox, all capabilities": {mode: "off"},
	"no sandbox, no capability":    {cage: cage{Drop: allCapabilities(), PIDs: true}, mode: "off", measures: []string{"capabilities"}},
	"sandbox, all capabilities":    {mode: "auto", measures: inOrder(withoutLandlock, ofLandlock, []string{"mounts", "user"})},
	inService: {
		cage: cage{
			Drop: slices.DeleteFunc(allCapabilities(), func(c uintptr) bool { return slices.Contains(unitCapabilities, c) }), PIDs: true, NoNewPrivs: true,
		},
		mode: "auto", measures: inOrder(withoutLandlock, ofLandlock, []string{"user"}),
	},
	inPod: {
		cage: cage{Drop: allCapabilities(), PIDs: true, NoNewPrivs: true}, mode: "auto", measures: inOrder(withoutLandlock, ofLandlock),
	},
	onOldKernel: {
		cage: cage{Drop: allCapabilities(), PIDs: true, NoNewPrivs: true, NoLandlock: true}, mode: "auto", measures: withoutLandlock,
	},
}

// refuses reports whether a measure that is in force refuses an attempt.
func (p place) refuses(a intruder.Attempt) bool {
	return slices.ContainsFunc(p.measures, func(m string) bool { return slices.Contains(strings.Fields(a.By), m) })
}

// Verifies that the tables in docs/security.md are made from the attempts and measures that TestIntruder uses.
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
	service, pod, old := places[inService], places[inPod], places[onOldKernel]
	for _, g := range intruder.Groups() {
		fmt.Fprintf(&b, "\n| %s: it tries to | refused by | in a pod | in a pod without Landlock |\n| --- | --- | --- | --- |\n", g.Title)
		for _, a := range g.Attempts {
			var by []string
			for _, m := range strings.Fields(a.By) {
				if slices.Contains(service.measures, m) {
					by = append(by, m)
				}
			}
			refused := cmp.Or(a.Instead, strings.Join(by, ", "), "**possible**")
			row := []string{a.What, refused}
			for _, p := range []place{pod, old} {
				switch {
				case a.Instead != "":
					row = append(row, "the same")
				case p.refuses(a):
					row = append(row, "refused")
				default:
					row = append(row, "**possible**")
				}
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
	}
	return b.String() + "\n"
}
