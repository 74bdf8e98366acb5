package labels

import "strings"

// families are the driver's families of GPUs by the prefix of the instruction set
// (AMDGPU_FAMILY_* in include/uapi/drm/amdgpu_drm.h, as amdgpu_discovery.c sets them), in the
// labeller's words. The first prefix that fits counts.
var families = []struct{ gfx, name string }{
	{"gfx60", "SI"},
	{"gfx700", "KV"}, {"gfx703", "KV"}, {"gfx705", "KV"}, {"gfx70", "CI"},
	{"gfx801", "CZ"}, {"gfx810", "CZ"}, {"gfx80", "VI"},
	{"gfx902", "RV"}, {"gfx909", "RV"}, {"gfx90c", "RV"}, {"gfx9", "AI"},
	{"gfx1033", "VGH"}, {"gfx1035", "YC"}, {"gfx1036", "GC_10_3_6"}, {"gfx10", "NV"},
	{"gfx1103", "GC_11_0_1"}, {"gfx110", "GC_11_0_0"}, {"gfx115", "GC_11_5_0"}, {"gfx120", "GC_12_0_0"},
}

// mendocino is the PCI device of the one GPU of GC 10.3.7, whose instruction set KFD reports as
// that of GC 10.3.6.
const mendocino = 0x1506

// family returns the family of a GPU; empty if it is not known.
func family(device uint16, gfx string) string {
	if device == mendocino {
		return "GC_10_3_7"
	}
	for _, f := range families {
		if strings.HasPrefix(gfx, f.gfx) {
			return f.name
		}
	}
	return ""
}
