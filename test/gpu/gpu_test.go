//go:build cgo

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/nvml"
)

// answer is what nvidia-smi would say of a GPU of the double, as far as it is
// compared.
const answer = `
<gpu id="BUS">
  <product_name>NVIDIA H100 80GB HBM3</product_name>
  <product_architecture>Hopper</product_architecture>
  <mig_mode><current_mig>MODE</current_mig><pending_mig>MODE</pending_mig></mig_mode>
  <mig_devices>MIG</mig_devices>
  <serial>SERIAL</serial>
  <uuid>UUID</uuid>
  <minor_number>MINOR</minor_number>
  <gpu_recovery_action>None</gpu_recovery_action>
  <pci><pci_bus_id>BUS</pci_bus_id><replay_counter>0</replay_counter></pci>
  <clocks_event_reasons>
    <clocks_event_reason_sw_power_cap>Not Active</clocks_event_reason_sw_power_cap>
    <clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
    <clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>
    <clocks_event_reason_hw_power_brake_slowdown>Not Active</clocks_event_reason_hw_power_brake_slowdown>
    <clocks_event_reason_sync_boost>Not Active</clocks_event_reason_sync_boost>
    <clocks_event_reason_sw_thermal_slowdown>Not Active</clocks_event_reason_sw_thermal_slowdown>
  </clocks_event_reasons>
  <fb_memory_usage><total>81920 MiB</total><reserved>512 MiB</reserved><used>512 MiB</used></fb_memory_usage>
  <utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>
  <ecc_errors><volatile>
    <sram_correctable>0</sram_correctable>
    <sram_uncorrectable_parity>0</sram_uncorrectable_parity>
    <sram_uncorrectable_secded>0</sram_uncorrectable_secded>
    <dram_correctable>0</dram_correctable>
    <dram_uncorrectable>0</dram_uncorrectable>
  </volatile><aggregate>
    <sram_correctable>0</sram_correctable>
    <sram_uncorrectable>0</sram_uncorrectable>
    <dram_correctable>0</dram_correctable>
    <dram_uncorrectable>0</dram_uncorrectable>
  </aggregate></ecc_errors>
  <retired_pages><pending_retirement>N/A</pending_retirement></retired_pages>
  <remapped_rows>
    <remapped_row_pending>No</remapped_row_pending>
    <remapped_row_failure>No</remapped_row_failure>
  </remapped_rows>
  <temperature><gpu_temp>31 C</gpu_temp><memory_temp>44 C</memory_temp></temperature>
  <gpu_power_readings><instant_power_draw>70.00 W</instant_power_draw><requested_power_limit>700.00 W</requested_power_limit></gpu_power_readings>
  <clocks><graphics_clock>345 MHz</graphics_clock><sm_clock>345 MHz</sm_clock><mem_clock>2619 MHz</mem_clock></clocks>
  <fabric><state>N/A</state></fabric>
</gpu>`

const log = `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
<driver_version>` + nvml.DriverVersion + `</driver_version>
<cuda_version>13.0</cuda_version>
<attached_gpus>2</attached_gpus>`

// smiSays is the answer for two GPUs, the second with a MIG device.
func smiSays() string {
	text := log
	for slot := range 2 {
		mode, mig := "Disabled", "None"
		if slot == 1 {
			mode = "Enabled"
			mig = "<mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id></mig_device>"
		}
		text += strings.NewReplacer("BUS", nvml.BusID(slot), "UUID", nvml.UUID(slot), "MODE", mode, "MIG", mig,
			"SERIAL", fmt.Sprint(1650000000+slot), "MINOR", fmt.Sprint(slot)).Replace(answer)
	}
	return text + "\n</nvidia_smi_log>\n"
}

// script is an nvidia-smi that says what is in files beside it.
const script = `#!/bin/sh
cd "$(dirname "$0")" || exit
case "$*" in
'-q -x') cat smi.xml ;;
'topo -m') cat smi.topology ;;
'nvlink -s') cat smi.nvlinks ;;
-L) cat smi.list ;;
'--query-gpu=uuid,compute_cap --format=csv,noheader')
    cat smi.compute
    ! grep -q 'not a valid field' smi.compute ;;
*) echo "Invalid combination of input arguments: $*"; exit 2 ;;
esac
`

// asProgram has the test binary be the program itself: so Go knows that a change of
// the program needs the tests again.
const asProgram = "ACCELMUX_TEST_GPU_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// bench is the program, doubles of the driver and of the host's files, and an
// nvidia-smi of our own.
type bench struct {
	*testing.T
	dir    string
	double *nvml.Double
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, dir: t.TempDir()}
	library, err := nvml.Build(t.Context(), b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if b.double, err = nvml.New(library, b.dir); err != nil {
		t.Fatal(err)
	}
	b.write("nvidia-smi", script, 0o700)
	b.agree()
	return b
}

// fill gives the node two GPUs, with NVLinks between them, the second with a MIG
// device.
func (b *bench) fill() {
	b.Helper()
	if err := b.double.Update(func(s nvml.State) {
		s.AddGPU(0)
		s.AddGPU(1)
		s.AddMIG(1, 0, 1, 10240)
		s.Mesh(4, 0, 1)
	}); err != nil {
		b.Fatal(err)
	}
	host, err := nvml.NewHost(b.dir, 2)
	if err == nil {
		err = host.AddMIG(1, 0)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.write("nvidia-cdi-hook", "", 0o700)
}

// agree has nvidia-smi say what the double's driver does.
func (b *bench) agree() {
	b.Helper()
	b.write("smi.xml", smiSays(), 0o600)
	b.write("smi.topology", "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"+
		"GPU0\t X \tNV4\tPIX\t0-7\t0\t\tN/A\nGPU1\tNV4\t X \tSYS\t0-7\t0\t\tN/A\nNIC0\tPIX\tSYS\t X \t\t\t\t\n"+legend, 0o600)
	links, list, compute := "", "", ""
	for slot := range 2 {
		gpu := fmt.Sprintf("GPU %d: NVIDIA H100 80GB HBM3 (UUID: %s)\n", slot, nvml.UUID(slot))
		links += gpu + strings.Repeat("\t Link 0: 26.562 GB/s\n", 4)
		list += gpu
		compute += nvml.UUID(slot) + ", 9.0\n"
	}
	b.write("smi.nvlinks", links, 0o600)
	b.write("smi.list", list+"  MIG 1g.10gb     Device  0: (UUID: "+nvml.MIGUUID(1, 0)+")\n", 0o600)
	b.write("smi.compute", compute, 0o600)
}

func (b *bench) write(name, text string, mode os.FileMode) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), mode); err != nil {
		b.Fatal(err)
	}
}

// change replaces a text in one of nvidia-smi's answers.
func (b *bench) change(name, old, by string) {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		b.Fatalf("%q is not in %s", old, name)
	}
	b.write(name, strings.Replace(string(text), old, by, 1), 0o600)
}

// run runs the program.
func (b *bench) run() (out string, err error) {
	b.Helper()
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	command := exec.Command(program, "-library", b.double.Library(), "-nvidia-smi", b.dir+"/nvidia-smi", "-driver-root", b.dir+"/driver",
		"-hook", b.dir+"/nvidia-cdi-hook", "-devfs", b.dir+"/dev", "-procfs", b.dir+"/proc")
	command.Env = append(append(os.Environ(), asProgram+"=yes"), b.double.Env()...)
	said, err := command.CombinedOutput()
	return string(said), err
}

func (b *bench) wantOK(what string, parts ...string) {
	b.Helper()
	out, err := b.run()
	if err != nil || !strings.Contains("\n"+out, "\nOK: ") {
		b.Errorf("%s: %v, %s", what, err, out)
	}
	for _, part := range parts {
		if !strings.Contains(out, part) {
			b.Errorf("%s: %q is not in:\n%s", what, part, out)
		}
	}
}

func (b *bench) wantFailed(what string, parts ...string) {
	b.Helper()
	out, err := b.run()
	if err == nil || !strings.Contains("\n"+out, "\nFAILED: ") {
		b.Errorf("%s, and: %v, %s", what, err, out)
	}
	for _, part := range parts {
		if !strings.Contains(out, part) {
			b.Errorf("%s: %q is not in:\n%s", what, part, out)
		}
	}
}

// cut is the text before and behind the first element of this name.
func cut(text, field string) (before, after string) {
	before, rest, _ := strings.Cut(text, "<"+field+">")
	_, after, _ = strings.Cut(rest, "</"+field+">")
	return before, after
}

// Verifies that nothing to test is no success, that agreement is told as such with
// what was not compared, and that every field that differs is a failure.
func TestComparison(t *testing.T) {
	b := newBench(t)
	if out, err := b.run(); err != nil || !strings.HasPrefix(out, "SKIPPED, NOTHING WAS TESTED") {
		t.Fatalf("without a GPU: %v, %s", err, out)
	}
	b.fill()
	b.wantOK("they agree", "events of "+nvml.UUID(0)+": dram-retirement", "NOT COMPARED: energy_joules_total", "device nodes")
	for field, other := range map[string]string{
		"driver_version": "1.2", "cuda_version": "1.2", "attached_gpus": "1",
		"product_name": "another", "product_architecture": "Ada Lovelace", "current_mig": "N/A", "pending_mig": "Enabled", "gpu_instance_id": "2",
		"compute_instance_id": "1", "serial": "1", "uuid": "GPU-x", "minor_number": "9", "gpu_recovery_action": "Drain and Reset",
		"pci_bus_id": "00000000:FF:00.0", "total": "81921 MiB", "used": "9999 MiB", "sram_uncorrectable_parity": "1",
		"sram_uncorrectable_secded": "1", "dram_uncorrectable": "1", "sram_correctable": "1", "pending_retirement": "Yes",
		"remapped_row_pending": "Yes", "remapped_row_failure": "Yes", "gpu_temp": "50 C", "memory_temp": "N/A",
		"instant_power_draw": "300.00 W", "requested_power_limit": "650.00 W", "gpu_util": "90 %", "memory_util": "90 %", "sm_clock": "1980 MHz",
		"mem_clock": "1 MHz", "replay_counter": "1", "clocks_event_reason_sw_power_cap": "Active", "state": "Completed",
	} {
		before, after := cut(smiSays(), field)
		b.write("smi.xml", before+"<"+field+">"+other+"</"+field+">"+after, 0o600)
		b.wantFailed(field + " is another")
	}
	b.agree()
	for name, change := range map[string][2]string{
		"smi.topology": {"NV4", "NV3"},
		"smi.nvlinks":  {"26.562 GB/s", "<inactive>"},
		"smi.list":     {"1g.10gb", "1g.20gb"},
		"smi.compute":  {"9.0", "8.0"},
	} {
		b.change(name, change[0], change[1])
		if name == "smi.topology" {
			b.change(name, "NV4", "NV3") // the other half
		}
		b.wantFailed(name + " is another")
		b.agree()
	}
}

// Verifies that what an older nvidia-smi does not know is told as not compared and
// fails nothing, and that a field that each one has is missed.
func TestOlderProgram(t *testing.T) {
	b := newBench(t)
	b.fill()
	for _, field := range []string{
		"product_architecture", "pending_mig", "gpu_recovery_action", "remapped_rows", "fabric", "ecc_errors", "utilization", "clocks",
		"clocks_event_reasons", "memory_temp", "mig_devices", "retired_pages", "replay_counter",
	} {
		text := ""
		for before, after := cut(smiSays(), field); ; before, after = cut(after, field) {
			text += before
			if after == "" {
				break
			}
		}
		b.write("smi.xml", text, 0o600)
		b.wantOK("no "+field, "NOT COMPARED: ", errUnknownField.Error())
	}
	b.agree()
	before, after := cut(smiSays(), "uuid")
	b.write("smi.xml", before+after, 0o600)
	b.wantFailed("no uuid", "\n: "+errUnknownField.Error()+": there is no <uuid>")
	b.agree()
	b.write("smi.compute", "Field \"compute_cap\" is not a valid field to query.\n", 0o600)
	b.write("smi.topology", "something else\n", 0o600)
	b.wantOK("other answers", "NOT COMPARED: compute_cap: "+errUnknownField.Error(), "NOT COMPARED: paths between GPUs: ")
	for _, name := range []string{"smi.topology", "smi.nvlinks", "smi.list"} {
		if err := os.Remove(filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.wantOK("no answers", "NOT COMPARED: paths between GPUs: ", "NOT COMPARED: NVLinks: ", "NOT COMPARED: MIG profiles: ")
}

// Verifies that what a container would get and is not there is found, that a
// toolkit that is not installed is told, and so is a GPU that gives no events.
func TestEditsAndEvents(t *testing.T) {
	b := newBench(t)
	b.fill()
	for _, name := range []string{"dev/nvidia1", "dev/nvidia-uvm", "dev/nvidia-caps/nvidia-cap32", "driver/usr/lib64/libcuda.so." + nvml.DriverVersion} {
		path := filepath.Join(b.dir, name)
		if err := os.Rename(path, b.dir+"/away"); err != nil {
			t.Fatal(err)
		}
		b.wantFailed(name+" is not there", "container edits of ")
		if err := os.Rename(b.dir+"/away", path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(b.dir+"/nvidia-cdi-hook", 0o600); err != nil {
		t.Fatal(err)
	}
	b.wantFailed("the hook cannot be run", "nvidia-cdi-hook is no program")
	if err := os.Remove(b.dir + "/nvidia-cdi-hook"); err != nil {
		t.Fatal(err)
	}
	b.wantOK("no toolkit", "NOT COMPARED: hooks: ")
	if err := b.double.Update(func(s nvml.State) { s.GPU(0).Set("events", 0) }); err != nil {
		t.Fatal(err)
	}
	b.wantOK("no events", "events of "+nvml.UUID(0)+": none")
	if err := b.double.Update(func(s nvml.State) { s.GPU(1).Fail("nvmlDeviceRegisterEvents", "UNKNOWN") }); err != nil {
		t.Fatal(err)
	}
	b.wantFailed("no registration", nvml.UUID(1)+": it should give events")
}

// Verifies that each part of edits is looked for, once, and that what is not there
// is named; nvcdi names no file that it did not see, so this is without it.
func TestInventory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		edits *sdk.Edits
		want  string
	}{
		"a mount":      {&sdk.Edits{Mounts: []*sdk.Mount{{HostPath: dir + "/file"}}}, ""},
		"no mount":     {&sdk.Edits{Mounts: []*sdk.Mount{{HostPath: dir + "/file"}, {HostPath: dir + "/lib.so"}}}, "/lib.so: no such file"},
		"a node":       {&sdk.Edits{DeviceNodes: []*sdk.DeviceNode{{Path: "/dev/x", HostPath: "/dev/null"}}}, ""},
		"no node":      {&sdk.Edits{DeviceNodes: []*sdk.DeviceNode{{Path: "/dev/null", HostPath: dir + "/null"}}}, "/null: no such file"},
		"a file":       {&sdk.Edits{DeviceNodes: []*sdk.DeviceNode{{Path: dir + "/file"}}}, "/file is no device node"},
		"a directory":  {&sdk.Edits{Hooks: []*backendv1.OciHook{{Path: dir}}}, " is no program"},
		"a plain hook": {&sdk.Edits{Hooks: []*backendv1.OciHook{{Path: dir + "/file"}}}, "/file is no program"},
	} {
		found := &inventory{options: options{host: sdk.HostPaths{Devfs: "/dev"}}, seen: map[string]error{}}
		err := errors.Join(found.all(tc.edits), found.all(tc.edits))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if all := tc.edits; found.nodes+found.mounts+found.hooks != len(all.DeviceNodes)+len(all.Mounts)+len(all.Hooks) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
