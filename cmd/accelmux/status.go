package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/status"
)

func newStatusCommand() *cobra.Command {
	command := newAskCommand(&cobra.Command{
		Use:   "status",
		Short: "Show the running agent's backends, resources and problems",
		Long: `Shows the running agent's configuration, backends, resources and problems. The exit
status is 0 also when there are problems.

With --ready it reports whether the node can use what the profile promises: every
backend has reported, kubelet has every resource from this agent, and the API server
has accepted the devices for dynamic resource allocation. If not, it exits with 1 and
prints what is missing. If so, it exits with 0 and prints "ready", or "ready, with N
problems:" and one line for each problem. On a node without a
matching profile it prints "ready, with nothing to do" and why. An agent on standby is
ready when every backend has reported: it prints "ready to take over".`,
	}, (*status.Client).Report, statusTable)
	ready := command.Flags().Bool("ready", false, "exit with 1 unless the node can use what the profile promises")
	show := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if !*ready {
			return show(cmd, args)
		}
		runDir, err := cmd.Flags().GetString("run-dir")
		if err != nil {
			return err
		}
		report, err := status.NewClient(runDir).Report(cmd.Context())
		if err != nil {
			return err
		}
		text, isReady := report.Readiness()
		if !isReady {
			return errors.New(text)
		}
		fmt.Fprintln(cmd.OutOrStdout(), text)
		return nil
	}
	return command
}

func statusTable(w *tabwriter.Writer, r status.Report) {
	fmt.Fprintf(w, "accelmux %s on %s, pid %d, up %s\n", r.Version, r.Node, r.PID, age(r.StartedAt))
	for _, o := range r.Others {
		fmt.Fprintln(w, otherLine(o))
	}
	switch r.Role {
	case status.RoleStandby:
		text, _ := r.Readiness()
		text, _, _ = strings.Cut(text, "\n")
		fmt.Fprintf(w, "this agent is on standby until the active one ends: %s\n", text)
	case status.RoleEnding:
		fmt.Fprintln(w, "this agent ends when kubelet is connected to the agent that takes over")
	}
	fmt.Fprintf(w, "configuration %s, %s\n", r.Config.Path, profileLine(r.Config))
	if f := r.Features; f != nil {
		line := "not published yet"
		if f.At != nil {
			line = fmt.Sprintf("%d published", len(f.Published))
		}
		fmt.Fprintf(w, "features %s: %s\n", line, f.Target)
	}
	fmt.Fprintln(w)
	row(w, "BACKEND", "STATE", "FOR", "PID", "RESTARTS", "DEVICES", "ALLOWED", "SANDBOX", "VERSION")
	for _, b := range r.Backends {
		pid := ""
		if b.PID != 0 {
			pid = fmt.Sprint(b.PID)
		}
		version, allowed := strings.TrimSpace(b.Vendor+" "+b.Version), ""
		if b.ReportedName != "" {
			version += ", reports the name " + b.ReportedName
		}
		if b.Needs != nil {
			allowed = b.Needs.Summary()
		}
		inForce := ""
		if b.Sandbox != nil {
			inForce = b.Sandbox.InForce
		}
		row(w, b.Name, b.State, age(b.Since), pid, b.Restarts, b.Devices, allowed, inForce, version)
	}
	fmt.Fprintln(w)
	resourceRows(w, r.Resources)
	driverRows(w, r.Drivers)
	fmt.Fprintln(w)
	if len(r.Problems) == 0 {
		fmt.Fprintln(w, "no problems")
		return
	}
	fmt.Fprintln(w, "problems:")
	for _, p := range r.Problems {
		fmt.Fprintln(w, "  "+p.String())
	}
}

// resourceRows prints the resources, with a column for their API if any is not of the device plugin
// API.
func resourceRows(w *tabwriter.Writer, resources []status.Resource) {
	hasDRA := slices.ContainsFunc(resources, func(res status.Resource) bool { return res.API == string(config.APIDRA) })
	cells := func(name, api string, more ...any) {
		first := []any{name}
		if hasDRA {
			first = append(first, api)
		}
		row(w, append(first, more...)...)
	}
	cells("RESOURCE", "API", "STATE", "FOR", "HEALTHY", "INJECTION", "REGISTRATION")
	for _, res := range resources {
		cells(res.Name, res.API, res.State, age(res.Since), fmt.Sprintf("%d of %d", res.Healthy, res.Units), res.Injection, res.Registration)
	}
	for _, res := range resources {
		if res.Note != "" {
			fmt.Fprintln(w, res.Name+": "+res.Note)
		}
	}
}

// driverRows prints the drivers of dynamic resource allocation, if there are any.
func driverRows(w *tabwriter.Writer, drivers []status.Driver) {
	if len(drivers) == 0 {
		return
	}
	fmt.Fprintln(w)
	row(w, "DRIVER", "BACKEND", "DEVICES", "REGISTERED", "PUBLISHED")
	for _, d := range drivers {
		row(w, d.Name, d.Backend, d.Devices, yesNo(d.Registered), yesNo(d.Published))
	}
	for _, d := range drivers {
		for _, note := range d.Notes {
			fmt.Fprintln(w, d.Name+": "+note)
		}
	}
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// otherLine describes another agent on this node.
func otherLine(o status.Other) string {
	return fmt.Sprintf("another agent: %s for %s, pid %d on %s: %s", o.Role, age(o.Since), o.PID, o.Host, o.Note)
}

// profileLine describes which profile is in force, for how long, and why.
func profileLine(c profile.Status) string {
	if c.Profile == "" {
		return "no profile in force: " + c.Reason
	}
	line := fmt.Sprintf("profile %s, in force for %s", c.Profile, age(c.AppliedAt))
	if c.Reason != "" {
		line += ": " + c.Reason
	}
	return line
}
