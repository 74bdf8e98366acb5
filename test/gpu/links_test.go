//go:build cgo

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const legend = `
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
`

// eightSwitched is the matrix of eight GPUs behind NVLink switches, with NICs.
func eightSwitched() string {
	text := "\t" + "GPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
	for i := range 8 {
		text += fmt.Sprintf("GPU%d", i)
		for j := range 8 {
			text += map[bool]string{true: "\t X ", false: "\tNV18"}[i == j]
		}
		text += "\tPXB\tSYS\t0-51,104-155\t0\t\tN/A\n"
	}
	return text + "NIC0" + strings.Repeat("\tPXB", 8) + "\t X \tSYS\t\t\t\t\nNIC1" + strings.Repeat("\tSYS", 9) + "\t X \t\t\t\t\n" + legend
}

func TestParseTopology(t *testing.T) {
	every := map[pair]string{}
	for i := range 8 {
		for j := i + 1; j < 8; j++ {
			every[pair{i, j}] = "NV18"
		}
	}
	for name, tc := range map[string]struct {
		text string
		want map[pair]string
	}{
		"one GPU": {
			"\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \t0-15\t0\t\tN/A\n" + legend,
			map[pair]string{},
		},
		"one GPU, no affinity": {"\t\x1b[4mGPU0\tCPU Affinity\x1b[0m\nGPU0\t X \t\n" + legend, map[pair]string{}},
		"all kinds": {
			"\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\x1b[0m\n" +
				"GPU0\t X \tPIX\tPXB\tPHB\t0-7\t0\nGPU1\tPIX\t X \tNODE\tSYS\t0-7\t0\n" +
				"GPU2\tPXB\tNODE\t X \tNV4\t8-15\t1\nGPU3\tPHB\tSYS\tNV4\t X \t8-15\t1\n" + legend,
			map[pair]string{{0, 1}: "PIX", {0, 2}: "PXB", {0, 3}: "PHB", {1, 2}: "NODE", {1, 3}: "SYS", {2, 3}: "NV4"},
		},
		"NICs by name, before the GPUs end, and an old word": {
			"\tGPU0\tmlx5_0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\tSOC\t0-7\nmlx5_0\tPIX\t X \tPHB\t\nGPU1\tSOC\tPHB\t X \t8-15\n" + legend,
			map[pair]string{{0, 1}: "SYS"},
		},
		"eight behind switches": {eightSwitched(), every},
		"spaces for tabs":       {strings.ReplaceAll(eightSwitched(), "\t", "    "), every},
	} {
		got, err := parseTopology(tc.text)
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	for name, text := range map[string]string{
		"nothing":          "",
		"not a matrix":     "Failed to initialize NVML: Unknown Error\n",
		"a word not known": "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tFAR\nGPU1\tFAR\t X \n",
		"a short row":      "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \n",
		"unlike halves":    "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\nGPU1\tSYS\t X \n",
	} {
		if got, err := parseTopology(text); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestParseNVLinks(t *testing.T) {
	got := parseNVLinks(`GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)
	 Link 0: 26.562 GB/s
	 Link 1: <inactive>
	 Link 2: 26.562 GB/s
GPU 1: Tesla T4 (UUID: GPU-b)
GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-c)
  MIG 3g.20gb     Device  0: (UUID: MIG-d)
NVML: Unable to retrieve NVLink information as all links are inActive
GPU 3: NVIDIA B200 (UUID: GPU-e)
	 Link 0: 53.125 GB/s
`)
	if diff := cmp.Diff(map[string]int{"GPU-a": 2, "GPU-e": 1}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseList(t *testing.T) {
	got := parseList(`GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)
  MIG 3g.20gb     Device  0: (UUID: MIG-b)
  MIG 1c.3g.20gb  Device  1: (UUID: MIG-c)
  MIG 1g.5gb+me   Device  2: (UUID: MIG-d)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-e)
`)
	if diff := cmp.Diff(map[string]string{"MIG-b": "3g.20gb", "MIG-c": "1c.3g.20gb", "MIG-d": "1g.5gb+me"}, got); diff != "" {
		t.Error(diff)
	}
}
