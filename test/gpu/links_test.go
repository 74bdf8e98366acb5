//go:build cgo

package main

import (
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

// Verifies that the matrices of all drivers are read, with NICs and in colours, and that what
// cannot be read is an error.
func TestParseTopology(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want map[pair]string
	}{
		"one GPU": {
			"\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \t0-15\t0\t\tN/A\n" + legend,
			map[pair]string{},
		},
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
	} {
		got, err := parseTopology(tc.text)
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	for name, text := range map[string]string{
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
