package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/cmd/accelmux/conformance"
	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/text"
)

// checkTimeout is the default of --timeout.
const checkTimeout = 5 * time.Minute

func newCheckBackendCommand() *cobra.Command {
	var options conformance.Options
	var settings string
	var env []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "check-backend PROGRAM",
		Short: "Check a backend program against the contract",
		Long: `Starts a backend program as the agent does, makes the calls of the contract
(proto/accelmux/backend/v1/backend.proto), and prints one line for each rule: pass,
fail or not applicable, and why. It exits with 0 only if no rule fails.

The program is started and stopped several times, in the sandbox that the agent has for
it: with what the manifest beside it has for the settings and nothing else, as far as the
kernel and your rights allow. The last lines report what was in force, and what of the
manifest nothing used here. No rule needs root.

The program reads this machine's hardware. Prepare, Release and Reset are called only with
--exercise: they disturb containers that use the devices. Don't check a backend on a node
whose agent runs the same one, unless its hardware can be opened twice.

--hardware-change runs a command that changes the hardware, such as unbinding a driver;
the backend must then send another inventory.`,
		Example: `  accelmux check-backend ./accelmux-backend-camera
  accelmux check-backend --settings settings.yaml --exercise ./accelmux-backend-camera
  accelmux check-backend -o json /usr/libexec/accelmux/accelmux-backend-nvidia`,
		Args: arguments.OneFile,
	}
	formats := []string{"table", "json", "yaml"}
	format := outputFlag(cmd, formats)
	flags := cmd.Flags()
	flags.StringVar(&settings, "settings", "", "`file` with the backend's settings, YAML or JSON (default: none)")
	flags.StringArrayVar(&env, "env", nil, "environment variable `NAME=value` for the program; may be repeated")
	flags.BoolVar(&options.Exercise, "exercise", false, "also call Prepare, Release and Reset for devices of this machine")
	flags.StringVar(&options.HardwareChange, "hardware-change", "", "shell `command` that changes the hardware")
	flags.StringVar((*string)(&options.Sandbox), "sandbox", string(sandbox.Auto), "`auto`: as the agent does, in a sandbox of what its manifest has; off: without one")
	flags.DurationVar(&timeout, "timeout", checkTimeout, "limit for the whole check")
	flags.StringVar(&options.HostPaths.Sysfs, "sysfs", "/sys", "root `dir`ectory of sysfs, for the program; absolute")
	flags.StringVar(&options.HostPaths.Devfs, "devfs", "/dev", "root `dir`ectory of device nodes, for the program; absolute")
	flags.StringVar(&options.HostPaths.Procfs, "procfs", "/proc", "root `dir`ectory of procfs, for the program; absolute")
	arguments.Dirs(cmd, "sysfs", "devfs", "procfs")
	arguments.File(cmd, "settings", "yaml", "yml", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*format, formats); err != nil {
			return err
		}
		if options.Sandbox != sandbox.Auto && options.Sandbox != sandbox.Off {
			return fmt.Errorf("--sandbox %q: use auto or off", options.Sandbox)
		}
		options.Program = args[0]
		var err error
		if options.Settings, err = readSettings(settings); err != nil {
			return err
		}
		if options.Env, err = variables(env); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("the check took longer than --timeout %s", timeout))
		defer cancel()
		report, err := conformance.Check(ctx, options)
		if len(report.Results) > 0 && cmd.Context().Err() == nil {
			err = errors.Join(printAs(cmd.OutOrStdout(), *format, report, func(w *tabwriter.Writer) { checkTable(w, report) }), err)
		}
		if n := report.Failed(); err == nil && n > 0 {
			err = fmt.Errorf("%s breaks %d of %d rules", report.Program, n, len(report.Results))
		}
		return err
	}
	return cmd
}

// readSettings reads a settings file and converts it to JSON; nil if path is "".
func readSettings(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	read, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	settings, err := yaml.YAMLToJSONStrict(read)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, text.OfDecoding(err))
	}
	if len(settings) == 0 || settings[0] != '{' {
		return nil, fmt.Errorf("%s: the settings must be one object, such as count: 2", path)
	}
	return settings, nil
}

// variables parses a list of NAME=value.
func variables(list []string) (map[string]string, error) {
	env := map[string]string{}
	for _, variable := range list {
		name, value, ok := strings.Cut(variable, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--env %q is not NAME=value", variable)
		}
		env[name] = value
	}
	return env, nil
}

// checkTable prints one line for each rule, and a summary.
func checkTable(w io.Writer, report conformance.Report) {
	row(w, "RESULT", "RULE", "WHAT")
	counts := map[conformance.Outcome]int{}
	first := map[string]string{} // the first rule with each reason, by reason
	var failed []string
	for _, r := range report.Results {
		counts[r.Outcome]++
		if r.Outcome == conformance.Fail {
			failed = append(failed, r.ID)
		}
		text, why := r.Text, r.Why
		if rule := first[why]; rule != "" && len(why) > len(rule)+len("As .") {
			why = "as " + rule + "."
		} else if why != "" {
			first[why] = r.ID
		}
		if why != "" {
			text += " " + strings.ToUpper(why[:1]) + why[1:]
		}
		row(w, r.Outcome, r.ID, text)
	}
	fmt.Fprintf(w, "\n%d pass, %d fail, %d not applicable\n", counts[conformance.Pass], counts[conformance.Fail], counts[conformance.NotApplicable])
	if len(failed) > 0 {
		fmt.Fprintf(w, "failed: %s\n", strings.Join(failed, ", "))
	}
	fmt.Fprintf(w, "sandbox: %s\n", cmp.Or(report.Sandbox.Summary(), "off"))
	for _, m := range report.Sandbox.Missing() {
		fmt.Fprintf(w, "  no %s: %s\n", m.Name, m.Detail)
	}
	if report.Process != "" {
		fmt.Fprintf(w, "the configuration needs for the process allow: {declared: accept}, or allow: {process: %s}\n", report.Process)
	}
	if report.Containers != "" {
		fmt.Fprintf(w, "the configuration needs for containers allow: {declared: accept}, or allow: %s\n", report.Containers)
	}
	if len(report.Sandbox.Unmatched) > 0 {
		fmt.Fprintf(w, "there are no files here for what the manifest has for the process: %s\n", strings.Join(report.Sandbox.Unmatched, ", "))
	}
	if report.Unused != "" {
		fmt.Fprintf(w, "no edits of the devices here have what the manifest has for containers: %s\n", report.Unused)
	}
}
