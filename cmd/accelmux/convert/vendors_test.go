package convert

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Verifies translations of the plugins of AMD, Intel and Xilinx, and that the backend's schema
// accepts the settings.
func TestVendors(t *testing.T) {
	amd, intel, xilinx := AMD, IntelFPGA, XilinxFPGA
	for name, tc := range map[string]struct {
		of     func(Source) ([]byte, []string, error)
		schema string
		source Source
		// want are parts of the result, none parts that it lacks; fails is part of the error.
		want, none []string
		fails      string
	}{
		"AMD": {of: amd, schema: "amd", want: []string{"name: amd.com/gpu"}, none: []string{"partitions", "vendorLabels"}},
		"AMD, mixed": {
			of: amd, schema: "amd", source: Source{Args: []string{"-pulse=2", "--resource_naming_strategy", "mixed"}},
			want: []string{"strategy: mixed", "amd.com/{computePartition}_{memoryPartition}", "# pulse is not translated"},
		},
		"AMD, labels": {
			of: amd, schema: "amd", source: Source{Args: []string{"-vram", "-cu-count=true"}, File: []byte("gpu: {device_count: 2}")},
			want: []string{"- beta.amd.com", "Stop the node labeller", "# gpu.device_count is not translated"},
		},
		"AMD, virtual machines": {of: amd, source: Source{Args: []string{"-driver_type=vf-passthrough"}}, fails: "not to virtual machines"},
		"AMD, field":            {of: amd, source: Source{File: []byte("gpu: {count: 2}")}, fails: "count"},
		"AMD, flag":             {of: amd, source: Source{Args: []string{"-pulsar"}}, fails: `"-pulsar" is not a flag`},
		"AMD, no value":         {of: amd, source: Source{Args: []string{"-pulse"}}, fails: "has no value"},
		"Intel": {
			of: intel, schema: "fpga", want: []string{"mode: af", "fpga.intel.com/{functionName}", "fpga.intel.com/{regionName}", "matchAnnotations"},
		},
		"Intel, regiondevel": {
			of: intel, schema: "fpga", source: Source{Args: []string{"-mode", "regiondevel"}, Env: map[string]string{"NODE_NAME": "a", "X": "y"}},
			want: []string{"mode: region-devel", `# "X" is not a variable of the plugin.`}, none: []string{"functionName"},
		},
		"Intel, another mode": {of: intel, source: Source{Args: []string{"-mode=x"}}, fails: "flag --mode: must be one of af, region, regiondevel"},
		"Xilinx": {
			of: xilinx, schema: "fpga", want: []string{"unit: board", "amd.com/{commonName}", "amd.com/{platformName}", "management: true"}, none: []string{"replicas"},
		},
		"Xilinx, devices": {
			of: xilinx, schema: "fpga", source: Source{Env: map[string]string{"U30NameConvention": "exactname", "U30AllocUnit": "Device", "VirtualDev": "True", "VirtualNum": "4"}},
			want: []string{"replicas: 4", "not all cards of the node"}, none: []string{"commonName", "unit:"},
		},
		"Xilinx, many": {
			of: xilinx, schema: "fpga", source: Source{Env: map[string]string{"VirtualDev": "true", "VirtualNum": "5000"}}, want: []string{"replicas: 1000", "5000 containers would share a device; 1000 can"},
		},
		"AMD, DaemonSet": {
			of: amd, schema: "amd", source: Source{File: []byte("kind: DaemonSet\nspec: {template: {spec: {containers: [{args: [-resource_naming_strategy=mixed]}]}}}\n")},
			want: []string{"strategy: mixed"},
		},
		"Xilinx, number": {of: xilinx, source: Source{Env: map[string]string{"VirtualDev": "true"}}, fails: "variable VirtualNum: must be a number"},
	} {
		t.Run(name, func(t *testing.T) {
			text, notes, err := tc.of(tc.source)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("%v, want %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range tc.want {
				if !strings.Contains(string(text), part) {
					t.Errorf("no %q in\n%s", part, text)
				}
			}
			for _, part := range tc.none {
				if strings.Contains(string(text), part) {
					t.Errorf("%q in\n%s", part, text)
				}
			}
			if strings.Count(string(text), "\n# ") != len(notes) { // after the first line, which is for editors
				t.Errorf("%q, and in the result\n%s", notes, text)
			}
			accepted(t, tc.schema, text)
		})
	}
}

// accepted fails the test unless the schema of a backend accepts the settings of a result.
func accepted(t *testing.T, backend string, text []byte) {
	t.Helper()
	var result struct {
		Profiles []struct {
			Backends []struct{ Settings any }
		}
	}
	schema, err := os.Open("../../../backends/" + backend + "/settings.schema.json")
	if err == nil {
		defer schema.Close() //nolint:errcheck // it was only read
		err = yaml.Unmarshal(text, &result)
	}
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(schema)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	settings := result.Profiles[0].Backends[0].Settings
	if settings == nil {
		return
	}
	if err := c.MustCompile("schema.json").Validate(settings); err != nil {
		t.Errorf("%s: %v", text, err)
	}
}
