//go:build cgo

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
  <pci><pci_bus_id>BUS</pci_bus_id></pci>
  <fb_memory_usage><total>81920 MiB</total><reserved>512 MiB</reserved><used>512 MiB</used></fb_memory_usage>
  <ecc_errors><volatile>
    <sram_uncorrectable_parity>0</sram_uncorrectable_parity>
    <sram_uncorrectable_secded>0</sram_uncorrectable_secded>
    <dram_uncorrectable>0</dram_uncorrectable>
  </volatile></ecc_errors>
  <retired_pages><pending_retirement>N/A</pending_retirement></retired_pages>
  <remapped_rows>
    <remapped_row_pending>No</remapped_row_pending>
    <remapped_row_failure>No</remapped_row_failure>
  </remapped_rows>
  <temperature><gpu_temp>31 C</gpu_temp></temperature>
  <gpu_power_readings><instant_power_draw>70.00 W</instant_power_draw><requested_power_limit>700.00 W</requested_power_limit></gpu_power_readings>
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

// bench is the program, a double of the driver and an nvidia-smi of our own.
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
	if out, err := exec.Command("go", "build", "-o", b.dir+"/gpu", ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return b
}

func (b *bench) write(name, text string, mode os.FileMode) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), mode); err != nil {
		b.Fatal(err)
	}
}

// run runs the program with an nvidia-smi that says the text.
func (b *bench) run(text string) (out string, err error) {
	b.Helper()
	b.write("says.xml", text, 0o600)
	b.write("nvidia-smi", "#!/bin/sh\n[ \"$*\" = '-q -x' ] && exec cat "+b.dir+"/says.xml\nexit 2\n", 0o700)
	command := exec.Command(b.dir+"/gpu", "-library", b.double.Library(), "-nvidia-smi", b.dir+"/nvidia-smi")
	command.Env = append(os.Environ(), b.double.Env()...)
	said, err := command.CombinedOutput()
	return string(said), err
}

// Verifies that agreement is told as such, that every field that differs, or that
// nvidia-smi no longer has under its name, is a failure, and that nothing to test is
// no success.
func TestComparison(t *testing.T) {
	b := newBench(t)
	if out, err := b.run(smiSays()); err != nil || !strings.HasPrefix(out, "SKIPPED, NOTHING WAS TESTED") {
		t.Fatalf("without a GPU: %v, %s", err, out)
	}
	if err := b.double.Update(func(s nvml.State) {
		s.AddGPU(0)
		s.AddGPU(1)
		s.AddMIG(1, 0, 1, 10240)
	}); err != nil {
		t.Fatal(err)
	}
	if out, err := b.run(smiSays()); err != nil || !strings.HasPrefix(out, "OK:") {
		t.Fatalf("they agree, and: %v, %s", err, out)
	}
	for field, other := range map[string]string{
		"driver_version": "1.2", "cuda_version": "1.2", "attached_gpus": "1",
		"product_name": "another", "product_architecture": "Ada Lovelace", "current_mig": "N/A", "gpu_instance_id": "2",
		"compute_instance_id": "1", "serial": "1", "uuid": "GPU-x", "minor_number": "9", "gpu_recovery_action": "Drain and Reset",
		"pci_bus_id": "00000000:FF:00.0", "total": "81921 MiB", "used": "9999 MiB", "sram_uncorrectable_parity": "1",
		"sram_uncorrectable_secded": "1", "dram_uncorrectable": "1", "pending_retirement": "Yes", "remapped_row_pending": "Yes",
		"remapped_row_failure": "Yes", "gpu_temp": "50 C", "instant_power_draw": "300.00 W", "requested_power_limit": "650.00 W",
		"state": "Completed",
	} {
		before, rest, _ := strings.Cut(smiSays(), "<"+field+">")
		_, after, _ := strings.Cut(rest, "</"+field+">")
		if out, err := b.run(before + "<" + field + ">" + other + "</" + field + ">" + after); err == nil || !strings.HasPrefix(out, "FAILED:") {
			t.Errorf("%s is another, and: %s", field, out)
		}
		if out, err := b.run(before + after); err == nil || !strings.HasPrefix(out, "FAILED:") {
			t.Errorf("%s is not there, and: %s", field, out)
		}
	}
}
