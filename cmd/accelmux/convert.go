package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/accelmux/convert"
	"github.com/accelmux/accelmux/cmd/arguments"
)

func newConvertCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert",
		Short: "Translate another device plugin's configuration into a node configuration",
		Args:  func(cmd *cobra.Command, args []string) error { return arguments.Commands(cmd, "plugin", args) },
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, p := range convertible {
		cmd.AddCommand(p.command())
	}
	return cmd
}

// fromStdin is about FILE, for help texts.
const fromStdin = "FILE may be - for standard input, which is also read if it is a pipe or a file and there are no\narguments; of a plugin without a configuration file give --"

// convertible are the plugins whose configuration can be translated.
var convertible = []convertiblePlugin{
	{
		use: "nvidia-device-plugin [FILE] [--env NAME=VALUE]... [-- FLAGS]", short: "Translate the configuration of NVIDIA's k8s-device-plugin and gpu-feature-discovery",
		from: "configuration of NVIDIA's k8s-device-plugin and gpu-feature-discovery v0.20.0:\nthe file, the variables of their containers (--env) and their flags (after --).\nOf a ConfigMap of several files each is a profile for the nodes with its label.\n" + fromStdin, convert: convert.NVIDIA,
		example: `  accelmux convert nvidia-device-plugin config.yaml --env MIG_STRATEGY=mixed > node.yaml
  kubectl get configmap NAME -o yaml | accelmux convert nvidia-device-plugin -
  accelmux convert nvidia-device-plugin -- --pass-device-specs --device-list-strategy=cdi-cri`,
	},
	{
		use: "amd-device-plugin [FILE] [--env NAME=VALUE]... [-- FLAGS]", short: "Translate the configuration of AMD's device plugin and node labeller for GPUs",
		from: "configuration of AMD's k8s-device-plugin and k8s-node-labeller:\nthe file, the variables of their containers (--env) and their flags (after --).\n" + fromStdin, convert: convert.AMD,
		example: `  accelmux convert amd-device-plugin -- -resource_naming_strategy=mixed -vram -family > node.yaml`,
	},
	{
		use: "intel-fpga-plugin [FILE] [--env NAME=VALUE]... [-- FLAGS]", short: "Translate the flags of Intel's device plugin for FPGAs",
		from: "flags (after --) of Intel's device plugin for FPGAs, or its DaemonSet,\nwhich has them.\n" + fromStdin, convert: convert.IntelFPGA,
		example: `  accelmux convert intel-fpga-plugin -- -mode region > node.yaml`,
	},
	{
		use: "xilinx-device-plugin [FILE] [--env NAME=VALUE]...", short: "Translate the variables of AMD's (Xilinx's) device plugin for FPGAs",
		from: "variables (--env) of the container of AMD's (Xilinx's) device plugin for FPGAs,\nor its DaemonSet, which has them.\n" + fromStdin, convert: convert.XilinxFPGA,
		example: `  accelmux convert xilinx-device-plugin --env U30AllocUnit=Card > node.yaml`,
	},
	{
		use: "generic-device-plugin [FILE] [-- FLAGS]", short: "Translate the configuration of squat's generic-device-plugin",
		from: "configuration of generic-device-plugin into described devices (docs/device.md):\nthe file, or its ConfigMap, and the flags (after --).\n" + fromStdin, convert: convert.Generic,
		example: `  accelmux convert generic-device-plugin config.yaml > node.yaml
  accelmux convert generic-device-plugin -- --domain lab.example --device '{name: fuse, groups: [{count: 10, paths: [{path: /dev/fuse}]}]}'`,
	},
	{
		use: "smarter-device-manager FILE", short: "Translate the configuration of smarter-device-manager",
		from: "configuration of smarter-device-manager (conf.yaml, or its ConfigMap)\ninto described devices (docs/device.md).\n" + fromStdin, convert: convert.Smarter,
		example: `  kubectl get configmap NAME -o yaml | accelmux convert smarter-device-manager > node.yaml`,
	},
	{
		use: "sriov-device-plugin FILE [-- FLAGS]", short: "Translate the configuration of the SR-IOV network device plugin",
		from: "configuration of the SR-IOV network device plugin (config.json, or its\nConfigMap) and its flags (after --) into described devices (docs/device.md).\n" + fromStdin, convert: convert.SRIOV,
		example: `  kubectl get configmap -n kube-system sriovdp-config -o yaml | accelmux convert sriov-device-plugin > node.yaml`,
	},
	{
		use: "rdma-shared-device-plugin FILE", short: "Translate the configuration of the RDMA shared device plugin",
		from: "configuration of the RDMA shared device plugin (config.json, or its ConfigMap)\ninto described devices (docs/device.md).\n" + fromStdin, convert: convert.RDMA,
		example: `  accelmux convert rdma-shared-device-plugin config.json > node.yaml`,
	},
	{
		use: "kubevirt FILE", short: "Translate the host devices that KubeVirt permits",
		from: "permittedHostDevices of a KubeVirt object into described devices\n(docs/device.md).\n" + fromStdin, convert: convert.KubeVirt,
		example: `  kubectl get kubevirt -A -o yaml | accelmux convert kubevirt > node.yaml`,
	},
}

// convertiblePlugin is one of them.
type convertiblePlugin struct {
	// from is what it is translated from, for the help text.
	use, short, from, example string
	convert                   func(convert.Source) (text []byte, notes []string, err error)
}

func (p convertiblePlugin) command() *cobra.Command {
	var env []string
	cmd := &cobra.Command{
		Use:   p.use,
		Short: p.short,
		Long: "Translates the " + p.from + `.
Prints a node configuration. Notes in comments at its top name what is not translated,
or behaves differently.`,
		Example:               p.example,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			files, flags := args, []string(nil)
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				files, flags = args[:at], args[at:]
			}
			if len(files) > 1 {
				return fmt.Errorf("%s takes one file, got %d: `%s`", cmd.CommandPath(), len(files), cmd.UseLine())
			}
			source := convert.Source{Args: flags, Env: map[string]string{}}
			for _, variable := range env {
				name, value, ok := strings.Cut(variable, "=")
				if !ok {
					return fmt.Errorf("--env %s: write NAME=VALUE", variable)
				}
				source.Env[name] = value
			}
			in := cmd.InOrStdin()
			given := len(files) > 0 || len(env) > 0 || cmd.ArgsLenAtDash() >= 0
			if !given && isInput(in) {
				files = []string{"-"}
			}
			if len(files) == 1 {
				var err error
				if source.Name = files[0]; source.Name == "-" {
					source.Name = "standard input"
				}
				if source.File, err = readPluginFile(cmd.Context(), in, files[0]); err != nil {
					return err
				}
			}
			if isEmpty := len(bytes.TrimSpace(source.File)) == 0; isEmpty && (!given || len(files) == 1) && strings.Contains(p.use, "[FILE]") {
				empty := "there is no FILE"
				if source.Name != "" {
					empty = source.Name + " is empty"
				}
				return fmt.Errorf("%s: of a plugin without a configuration file give its variables and flags, or `%[2]s --`; `%[2]s --help` has examples",
					empty, cmd.CommandPath())
			}
			text, notes, err := p.convert(source)
			if err != nil {
				for _, note := range notes { // what else is wrong may be why
					fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", note)
				}
				return fmt.Errorf("convert: %w", err)
			}
			if len(notes) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "notes at the top of the result: %d\n", len(notes))
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; flags of the plugin go after --", arguments.FlagError(cmd, err))
	})
	if strings.Contains(p.use, "--env") {
		cmd.Flags().StringArrayVar(&env, "env", nil, "a variable of the plugin's container, NAME=VALUE; can be repeated")
	}
	return cmd
}

// maxPluginFile bounds the configuration of another plugin, in bytes.
const maxPluginFile = 1 << 20

// readPluginFile reads a file, or standard input if its name is "-", until ctx ends.
func readPluginFile(ctx context.Context, in io.Reader, name string) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	read := make(chan result, 1)
	go func() { // a pipe may have no writer yet
		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				read <- result{err: err}
				return
			}
			defer file.Close() //nolint:errcheck // only read
			in = file
		}
		text, err := io.ReadAll(io.LimitReader(in, maxPluginFile+1))
		read <- result{text, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-read:
		if r.err == nil && len(r.text) > maxPluginFile {
			return nil, fmt.Errorf("%s is larger than %d bytes", name, maxPluginFile)
		}
		return r.text, r.err
	}
}

// isInput reports whether a reader is a pipe or a file, rather than a terminal or no device.
func isInput(in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}
