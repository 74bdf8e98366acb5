package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/cmd/arguments/argumentstest"
)

// wrongly returns what is printed for a wrong use of a command.
func wrongly(t *testing.T, line string) string {
	t.Helper()
	root := newRootCommand()
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	root.SetIn(strings.NewReader(""))
	args := strings.Fields(line)
	root.SetArgs(args)
	err := arguments.CheckCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(t.Context())
	}
	if err == nil {
		t.Errorf("%s is accepted", line)
		return ""
	}
	return err.Error()
}

// Verifies what people see who use a command wrongly.
func TestWrongUse(t *testing.T) {
	argumentstest.Check(t, newRootCommand, "run", "--run-dir", "await-pause --run-dirs", "doctor --config", "doctor --cdi-dir", "doctor --kubelet-dir", "doctor --kubelet-root-dir")
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"node.yaml": mistakenConfig, "nothing": "", "a": "{", "no/": "", "other/accelmux-backend-mock.txt": "x", "claims.yaml": claims, "saved.yaml": "resources: 5", "old.yaml": "resources: []", "kube.yaml": "kind: Pod"} {
		err := os.MkdirAll(filepath.Dir(name), 0o750)
		if err == nil && !strings.HasSuffix(name, "/") {
			err = os.WriteFile(name, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"devices --health=false":                                     "unknown flag: --health; did you mean \"--unhealthy\"?; `accelmux devices --help` lists the flags",
		"devices --every 5s":                                         "--every has no effect without --watch; `accelmux devices --help` lists the flags",
		"devices --ever 5s":                                          "unknown flag: --ever; did you mean \"--every\"?; `accelmux devices --help` lists the flags",
		"top --every=5s":                                             "--every has no effect without --watch; `accelmux top --help` lists the flags",
		"validate node.yaml --backend-dir=missing":                   "--backend-dir (directory of the backend programs): missing does not exist; `accelmux validate --help` lists the flags",
		"validate node.yaml --backend-dir=no":                        "--backend-dir (directory of the backend programs): no is empty; `accelmux validate --help` lists the flags",
		"validate node.yaml --backend-dir=node.yaml":                 "--backend-dir (directory of the backend programs): node.yaml is not a directory; `accelmux validate --help` lists the flags",
		"validate node.yaml --against=node.yaml":                     "node.yaml is not what `accelmux topology -o inventory` of this version prints: it is a NodeConfig",
		"validate node.yaml --against=missing":                       "read the inventory missing: open missing: no such file or directory",
		"validate node.yaml --against=a":                             "a is not what `accelmux topology -o inventory` of this version prints: line 1: did not find expected node content",
		"validate node.yaml --against=saved.yaml":                    "saved.yaml is not what `accelmux topology -o inventory` of this version prints: the field resources has the wrong type: number",
		"validate node.yaml --against=old.yaml":                      "old.yaml is not what `accelmux topology -o inventory` of this version prints: it has no node",
		"validate node.yaml --against=nothing":                       "nothing is not what `accelmux topology -o inventory` of this version prints: it has no node",
		"status --run-dir=node.yaml":                                 "no agent answers on node.yaml/admin.sock: start one with `accelmux run`, or name its run directory with --run-dir",
		"backends --backend-dir=other --config=node.yaml x":          "there are no programs of backends (accelmux-backend-*) in other; --backend-dir names their directory",
		"backends --backend-dir=other":                               "there are no programs of backends (accelmux-backend-*) in other; --backend-dir names their directory",
		"backends --backend-dir=no":                                  "--backend-dir (directory of the backend programs): no is empty; `accelmux backends --help` lists the flags",
		"backends --config=missing":                                  "--config (file of the node configuration): missing does not exist; `accelmux backends --help` lists the flags",
		"discover --sysfs=no":                                        "--sysfs (root directory of sysfs): no is empty; `accelmux discover --help` lists the flags",
		"discover --sysfs=node.yaml":                                 "--sysfs (root directory of sysfs): node.yaml is not a directory; `accelmux discover --help` lists the flags",
		"discover --backend-dir=other":                               "there are no programs of backends (accelmux-backend-*) in other; --backend-dir names their directory",
		"doctor --sysfs=missing":                                     "--sysfs (root directory of sysfs): missing does not exist; `accelmux doctor --help` lists the flags",
		"doctor --devfs=no":                                          "--devfs (root directory of device nodes): no is empty; `accelmux doctor --help` lists the flags",
		"doctor --procfs=missing":                                    "--procfs (root directory of procfs, with the node's processes): missing does not exist; `accelmux doctor --help` lists the flags",
		"doctor --backend-dir=missing":                               "--backend-dir (directory of the backend programs and their manifests): missing does not exist; `accelmux doctor --help` lists the flags",
		"doctor --kubeconfig=missing":                                "--kubeconfig (kubeconfig file for the API server): missing does not exist; `accelmux doctor --help` lists the flags",
		"doctor --kubeconfig=no":                                     "--kubeconfig (kubeconfig file for the API server): no is not a file; `accelmux doctor --help` lists the flags",
		"doctor --containerd-config=missing":                         "--containerd-config (containerd's configuration file): missing does not exist; `accelmux doctor --help` lists the flags",
		"doctor --crio-config=nothing":                               "--crio-config (CRI-O's configuration file): nothing is empty; `accelmux doctor --help` lists the flags",
		"demo --sysfs=other":                                         "--sysfs has no effect without --config; `accelmux demo --help` lists the flags",
		"demo --profile=a":                                           "--profile has no effect without --config; `accelmux demo --help` lists the flags",
		"check-backend p --settings=nothing":                         "--settings (file with the backend's settings, YAML or JSON): nothing is empty; `accelmux check-backend --help` lists the flags",
		"launcher --program=a --socket=b --backend-dir=missing":      "--backend-dir (directory of the backend programs and their manifests): missing does not exist; `accelmux launcher --help` lists the flags",
		"webhook --tls-key=missing":                                  "--tls-key (PEM file of its key): missing does not exist; `accelmux webhook --help` lists the flags",
		"topology explain --claim=claims.yaml --inventory=node.yaml": "node.yaml is not what `accelmux topology -o inventory` of this version prints: it is a NodeConfig",
		"topology explain --claim=a":                                 "read a: line 1: did not find expected node content",
		"run --config=node.yaml --state-dir=s --run-dir=r --cdi-dir=c --kubelet-dir=k --kubeconfig=node.yaml": "read the kubeconfig node.yaml: it is a NodeConfig, not a kubeconfig, which has kind: Config",
		"convert nvidia-device-plugin":            "there is no FILE: of a plugin without a configuration file give its variables and flags, or `accelmux convert nvidia-device-plugin --`; `accelmux convert nvidia-device-plugin --help` has examples",
		"topology explian -n 4":                   `"explian" is not the name of a resource, such as nvidia.com/gpu; did you mean "accelmux topology explain"?`,
		"topology gpu":                            "\"gpu\" is not the name of a resource, such as nvidia.com/gpu: `accelmux topology [RESOURCE] [flags]`",
		"topology explain --claim - -n 2":         "the claims of --claim have what is asked for: leave out --count",
		"topology explain --inventory saved.yaml": "--inventory has no effect without --claim; `accelmux topology explain --help` lists the flags",
		"topology explain --count=two":            "--count must be a whole number, is \"two\"; `accelmux topology explain --help` lists the flags",
		"launcher --program accelmux-backend":     "set --program and --socket; `accelmux launcher --help` has an example",
		"run --launcher=nvidia":                   "--launcher must be PROGRAM=SOCKET, is \"nvidia\"; `accelmux run --help` lists the flags",
		"run -config node.yaml":                   "unknown flag: -config; did you mean \"--config\"?; `accelmux run --help` lists the flags",
		"run --config":                            "--config needs a value; `accelmux run --help` lists the flags",
		"run --log-level=trace":                   `--log-level "trace": use one of debug, info, warn, error`,
		"backends nvidia amd":                     "unexpected argument \"amd\": `accelmux backends [NAME] [flags]`",
		"completion bsh":                          `accelmux completion: "bsh" is not a shell; did you mean "bash"?`,
		"convert nvidia":                          `accelmux convert: "nvidia" is not a plugin; the plugins are amd-device-plugin, generic-device-plugin, intel-fpga-plugin, kubevirt, nvidia-device-plugin, rdma-shared-device-plugin, smarter-device-manager, sriov-device-plugin, xilinx-device-plugin`,
	} {
		if got := wrongly(t, line); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", line, got, want)
		}
	}
}

// claims is a file for topology explain --claim.
const claims = `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: d}}]}}}`

// mistakenConfig is a configuration where another file is wanted.
const mistakenConfig = "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: p, backends: [{name: mock}], resources: [{name: example.com/gpu}]}]\n"

// Verifies that each command with flags of few values names these for another one, before it does anything.
func TestValuesOfFlags(t *testing.T) {
	found := 0
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		for _, flag := range []string{"output", "log-level", "log-format", "sort-by", "sandbox"} {
			if c.Flags().Lookup(flag) == nil {
				continue
			}
			found++
			line := append(slices.Clone(path), "--"+flag+"=no-such-value")
			switch c.Name() {
			case "validate", "check-backend":
				line = append(line, "no-such-file")
			case "launcher":
				line = append(line, "--program=p", "--socket=s")
			}
			if got := wrongly(t, strings.Join(line, " ")); !strings.Contains(got, `"no-such-value"`) || !strings.Contains(got, "use ") {
				t.Errorf("%s: %s", line, got)
			}
		}
		for _, s := range c.Commands() {
			visit(s, append(slices.Clone(path), s.Name()))
		}
	}
	visit(newRootCommand(), nil)
	if found < 15 {
		t.Errorf("only %d flags were found", found)
	}
}
