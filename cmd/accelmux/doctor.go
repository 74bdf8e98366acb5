package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/cmd/accelmux/doctor"
	"github.com/accelmux/accelmux/cmd/accelmux/validate"
	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/kubeletdir"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/status"
)

// The Node is read so often, with these pauses, while it differs from what the agent has: kubelet writes its status
// within 10 s of a change.
const (
	nodeTries = 5
	nodePause = 3 * time.Second
)

func newDoctorCommand() *cobra.Command {
	node := doctor.Node{Root: "/"}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find where devices stop on the way to pods, and what to do",
		Long: `Goes from the PCI bus to the pod: hardware, kernel driver, device nodes, the driver's library,
configuration, agent, backend, inventory, resource, CDI, container runtime, kubelet, dynamic
resource allocation, and what the API server has of the Node. It prints for each device at
which step it stops, why, and what to do. What cannot be found out from here is
"not checked", with the reason.

It changes nothing, and needs no running agent. Run it on the node as root; in the agent's
pod it cannot check the container runtime. The exit status is 0 if nothing stops, 1 if a step
or a device stops, and 2 if the command is used wrongly.`,
		Example: `  accelmux doctor
  accelmux doctor -o json
  kubectl exec -n accelmux-system POD -- accelmux doctor`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := arguments.None(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{arguments.FlagError(cmd, err)} })
	flags := cmd.Flags()
	flags.StringVar(&node.ConfigPath, "config", "", "node configuration `file` (default: the running agent's, or "+defaultConfig+")")
	backendDir := flags.String("backend-dir", programDir(), "`dir`ectory of the backend programs and their manifests")
	flags.StringVar(&node.Sysfs, "sysfs", "/sys", "root `dir`ectory of sysfs")
	flags.StringVar(&node.Devfs, "devfs", "/dev", "root `dir`ectory of device nodes")
	flags.StringVar(&node.Procfs, "procfs", "/proc", "root `dir`ectory of procfs, with the node's processes")
	flags.StringVar(&node.KubeletDir, "kubelet-dir", "", "`dir`ectory in which kubelet has device-plugins (default: the running agent's, or "+kubeletdir.Default+")")
	flags.StringVar(&node.KubeletRootDir, "kubelet-root-dir", "", "kubelet's root `dir`ectory (default: the running agent's; without one --kubelet-dir if that is set, else the running kubelet's)")
	flags.StringVar(&node.CDIDir, "cdi-dir", "", "`dir`ectory of the agent's CDI specs (default: the running agent's, or "+defaultCDIDir+")")
	flags.StringVar(&node.Runtime.ContainerdConfig, "containerd-config", "/etc/containerd/config.toml", "containerd's configuration `file`")
	flags.StringVar(&node.Runtime.CRIOConfig, "crio-config", "/etc/crio/crio.conf", "CRI-O's configuration `file`; those of its directory FILE.d are read, too")
	arguments.Dirs(cmd, "backend-dir", "sysfs", "devfs", "procfs")
	completeDirs(cmd, "kubelet-dir", "kubelet-root-dir", "cdi-dir")
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig `file` for the API server (default: in a pod its service account, otherwise none)")
	arguments.File(cmd, "kubeconfig")
	arguments.File(cmd, "containerd-config", "toml")
	arguments.File(cmd, "crio-config", "conf")
	cobra.CheckErr(cmd.MarkFlagFilename("config", "yaml", "yml"))
	runDir := runDirFlag(cmd)
	format := outputFlag(cmd, outputFormats)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkOutput(*format, outputFormats); err != nil {
			return usageError{err}
		}
		node.Runtime.Version = func(program string) (string, error) { return doctor.Installed(cmd.Context(), program) }
		node.Runtime.SpecDirs = cdi.DefaultSpecDirs
		node.Hardware = manifest.HardwareOf(*backendDir)
		var result doctor.Result
		for range nodeTries {
			gather(cmd.Context(), &node, *runDir, *backendDir)
			if node.Report != nil {
				node.Cluster, node.ClusterErr = doctor.ReadCluster(cmd.Context(), *kubeconfig, node.Report.Node, len(node.Report.Drivers) > 0)
			}
			if result = doctor.Examine(node); !result.NodeDiffers() || !backoff.Sleep(cmd.Context(), nodePause) {
				break
			}
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		if err := printAs(cmd.OutOrStdout(), *format, result, func(w *tabwriter.Writer) { doctorTable(w, result) }); err != nil {
			return err
		}
		if result.Stopped() {
			return errors.New("something stops on the way to pods: see above")
		}
		return nil
	}
	return cmd
}

// gather asks the agent, if one runs, and reads the configuration file.
func gather(ctx context.Context, node *doctor.Node, runDir, backendDir string) {
	client := status.NewClient(runDir)
	report, err := client.Report(ctx)
	if err == nil {
		node.Devices, err = client.Devices(ctx)
	}
	if node.AgentErr = err; err == nil {
		node.Report = &report
	}
	node.CDIDir = cmp.Or(node.CDIDir, report.CDIDir, defaultCDIDir)
	if node.KubeletRootDir = cmp.Or(node.KubeletRootDir, report.KubeletRootDir, node.KubeletDir); node.KubeletRootDir == "" {
		node.KubeletRootDir = cmp.Or(kubeletdir.Find(ctx, node.Procfs, kubeletdir.Default), kubeletdir.Default)
	}
	node.KubeletDir = cmp.Or(node.KubeletDir, report.KubeletDir, kubeletdir.Default)
	path, isNamed := node.ConfigPath, node.ConfigPath != ""
	switch {
	case isNamed:
	case node.Report != nil && filepath.IsAbs(report.Config.Path):
		path = report.Config.Path
	default:
		path = defaultConfig
	}
	node.ConfigPath = path
	node.Config, node.ConfigErr = validate.Load(ctx, path, backendDir)
	if node.Report != nil && !isNamed {
		node.ConfigErr = nil // the agent reports what is wrong with its file, which may not be here
	}
}

// doctorTable prints the steps, a line for the devices of each resource that nothing stops, and each
// other device.
func doctorTable(w *tabwriter.Writer, r doctor.Result) {
	row(w, "STEP", "STATE", "WHY")
	for _, s := range r.Steps {
		row(w, s.Step, s.State, s.Why)
		if s.Do != "" {
			row(w, " ", "do:", s.Do)
		}
	}
	_ = w.Flush() // printAs reports the error
	fmt.Fprintln(w)
	type group struct{ resource, why string }
	passed := map[group]int{}
	for _, d := range r.Devices {
		if d.State != doctor.Stops {
			passed[group{d.Resource, d.Why}]++
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(passed), func(a, b group) int { return strings.Compare(a.resource+a.why, b.resource+b.why) }) {
		line := fmt.Sprintf("%s, %d devices: ", cmp.Or(g.resource, "without a resource"), passed[g])
		if g.why == "" {
			line += "ok"
		}
		fmt.Fprintln(w, line+g.why)
	}
	stoppedLines(w, r.Devices)
	if len(r.Devices) == 0 {
		fmt.Fprintln(w, "no devices: there are no accelerators on the PCI bus, and no backend lists any")
	}
}

// stoppedLines prints the devices that stop, once for each reason.
func stoppedLines(w io.Writer, devices []*doctor.Device) {
	type reason struct {
		at string
		doctor.Finding
	}
	var order []reason
	names := map[reason][]string{}
	for _, d := range devices {
		if d.State != doctor.Stops {
			continue
		}
		why := reason{d.StopsAt, d.Finding}
		if names[why] == nil {
			order = append(order, why)
		}
		names[why] = append(names[why], deviceName(d))
	}
	for _, why := range order {
		verb := "stop"
		if len(names[why]) == 1 {
			verb = "stops"
		}
		fmt.Fprintf(w, "%s %s at %s: %s\n  do: %s\n", strings.Join(names[why], ", "), verb, why.at, why.Why, why.Do)
	}
}

func deviceName(d *doctor.Device) string {
	name := d.ID
	if d.Backend != "" {
		name = d.Backend + "/" + d.ID
	}
	if d.PCIBusID != "" {
		name += " (" + d.PCIBusID + ")"
	}
	return name
}
