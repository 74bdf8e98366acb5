package arguments

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// Verifies what is printed for wrong commands and flags: what is meant, or where to find it.
func TestWrongUse(t *testing.T) {
	for args, want := range map[string]string{
		"statsu":           "unknown command \"statsu\"; did you mean \"status\"?; `accelmux --help` lists the commands",
		"statsu --count=1": "unknown command \"statsu\"; did you mean \"status\"?; `accelmux --help` lists the commands",
		"frobnicate":       "unknown command \"frobnicate\"; `accelmux --help` lists the commands",
		"status --cuont=1": "unknown flag: --cuont; did you mean \"--count\"?; `accelmux status --help` lists the flags",
		"status --count=x": "--count must be a whole number, is \"x\"; `accelmux status --help` lists the flags",
		"status --wait=5":  "--wait must be a duration such as 30s or 1m30s, is \"5\"; `accelmux status --help` lists the flags",
		"status --all=ja":  "--all must be true or false, is \"ja\"; `accelmux status --help` lists the flags",
		"status":           "",
	} {
		root := &cobra.Command{Use: "accelmux", SilenceErrors: true, SilenceUsage: true}
		status := &cobra.Command{Use: "status", Args: None, Run: func(*cobra.Command, []string) {}}
		status.Flags().Int("count", 1, "")
		status.Flags().Duration("wait", time.Second, "")
		status.Flags().Bool("all", false, "")
		root.AddCommand(status)
		Strict(root)
		given := strings.Fields(args)
		err := CheckCommand(root, given)
		if err == nil {
			root.SetArgs(given)
			err = root.Execute()
		}
		if got := message(err); got != want {
			t.Errorf("%s: %s\nwant %s", args, got, want)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
