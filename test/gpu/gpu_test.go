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

// bench is the program, doubles of the driver and of the host's files, and what
// nvidia-smi is to say.
type bench struct {
	*testing.T
	dir    string
	double *nvml.Double
	smi    string // the directory of nvidia-smi's answers
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, dir: t.TempDir(), smi: t.TempDir()}
	library, err := nvml.Build(t.Context(), b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if b.double, err = nvml.New(library, b.dir); err != nil {
		t.Fatal(err)
	}
	b.agree()
	return b
}

// beside runs a test beside others, with answers of its own, which agree.
func (b *bench) beside(name string, test func(b *bench)) {
	b.Run(name, func(t *testing.T) {
		t.Parallel()
		own := &bench{T: t, dir: b.dir, double: b.double, smi: t.TempDir()}
		own.agree()
		test(own)
	})
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
	if err := os.WriteFile(b.dir+"/nvidia-cdi-hook", nil, 0o700); err != nil {
		b.Fatal(err)
	}
}

// agree has nvidia-smi say what the double's driver does.
func (b *bench) agree() {
	b.Helper()
	b.say("smi.xml", smiSays())
	b.say("smi.topology", "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"+
		"GPU0\t X \tNV4\tPIX\t0-7\t0\t\tN/A\nGPU1\tNV4\t X \tSYS\t0-7\t0\t\tN/A\nNIC0\tPIX\tSYS\t X \t\t\t\t\n"+legend)
	links, list, compute := "", "", ""
	for slot := range 2 {
		gpu := fmt.Sprintf("GPU %d: NVIDIA H100 80GB HBM3 (UUID: %s)\n", slot, nvml.UUID(slot))
		links += gpu + strings.Repeat("\t Link 0: 26.562 GB/s\n", 4) + "\t Link 4: <inactive>\n"
		list += gpu
		compute += nvml.UUID(slot) + ", 9.0\n"
	}
	b.say("smi.nvlinks", links+"  MIG 1g.10gb     Device  0: (UUID: "+nvml.MIGUUID(1, 0)+")\n")
	b.say("smi.list", list+"  MIG 1g.10gb     Device  0: (UUID: "+nvml.MIGUUID(1, 0)+")\n")
	b.say("smi.compute", compute)
}

// say writes a file of nvidia-smi's.
func (b *bench) say(name, text string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.smi, name), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// change replaces a text in one of nvidia-smi's answers.
func (b *bench) change(name, old, by string) {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.smi, name))
	if err != nil {
		b.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		b.Fatalf("%q is not in %s", old, name)
	}
	b.say(name, strings.ReplaceAll(string(text), old, by))
}

// run runs the program.
func (b *bench) run() (out string, err error) {
	b.Helper()
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	command := exec.Command(program, "-library", b.double.Library(), "-nvidia-smi", program, "-driver-root", b.dir+"/driver",
		"-hook", b.dir+"/nvidia-cdi-hook", "-devfs", b.dir+"/dev", "-procfs", b.dir+"/proc")
	// The race detector would wait for a second at the end of each process.
	command.Env = append(append(os.Environ(), answersIn+"="+b.smi,
		"GORACE=atexit_sleep_ms=0"), b.double.Env()...)
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

// Verifies that nothing to test is a failure, that agreement is a success that lists what
// was not compared, and that every field that differs is a failure.
func TestComparison(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if out, err := b.run(); err == nil || !strings.HasPrefix(out, "FAILED, nothing was tested: ") {
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
		b.beside(field, func(b *bench) {
			before, after := cut(smiSays(), field)
			b.say("smi.xml", before+"<"+field+">"+other+"</"+field+">"+after)
			b.wantFailed("it is another")
		})
	}
	for name, change := range map[string][2]string{
		"smi.topology": {"NV4", "NV3"},
		"smi.nvlinks":  {"26.562 GB/s", "<inactive>"},
		"smi.list":     {"1g.10gb", "1g.20gb"},
		"smi.compute":  {"9.0", "8.0"},
	} {
		b.beside(name, func(b *bench) {
			b.change(name, change[0], change[1])
			b.wantFailed("it is another")
		})
	}
}
