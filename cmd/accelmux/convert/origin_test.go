package convert

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/config"
)

// ofResult matches a path of a node configuration, or of a backend's settings in it, that no input has.
var ofResult = regexp.MustCompile(`profiles\[|backends\[|kinds\[|(^|[^.])\bresources\[|edits\.|match\.|\bresult\b`)

// extremes are values that the types of most fields have and the result may not.
var extremes = []string{"16384", "-1", "", "a b", "a_b/c_d", strings.Repeat("x", 300), "\"q\"", "../..", "[", "true"}

// Verifies of all conversions that whatever a value of the input is, an error names the input's file, field and line,
// flag or variable, and that neither errors nor notes name a path of the result.
func TestErrorsNameTheInput(t *testing.T) {
	examples := map[string]func(Source) ([]byte, []string, error){"nvidia-device-plugin": NVIDIA, "amd-device-plugin": AMD}
	for name, convert := range peers {
		examples[name] = convert
	}
	for name, convert := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var document yaml.Node
			if err := yaml.Unmarshal(text, &document); err != nil {
				t.Fatal(err)
			}
			if data := field(document.Content[0], "data"); data != nil {
				inner := data.Content[1].Value
				if err := yaml.Unmarshal([]byte(inner), &document); err != nil {
					t.Fatal(err)
				}
			}
			refused := 0
			eachScalar(&document, func(n *yaml.Node) {
				was := *n
				for _, value := range extremes {
					if *n = (yaml.Node{Kind: yaml.ScalarNode, Value: value}); value == "" {
						n.Style = yaml.DoubleQuotedStyle // not null
					}
					in, err := yaml.Marshal(&document)
					if err != nil {
						t.Fatal(err)
					}
					if _, notes, err := convert(Source{Name: "f.yaml", File: in}); err != nil {
						refused++
						checkError(t, in, err, notes)
					} else {
						checkNotes(t, notes)
					}
				}
				*n = was
			})
			if refused == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// checkError fails the test unless an error is one of a field of the input.
func checkError(t *testing.T, in []byte, err error, notes []string) {
	t.Helper()
	var all config.Errors
	var one config.Error
	if !errors.As(err, &all) {
		if !errors.As(err, &one) {
			t.Errorf("%v: no field in\n%s", err, in)
			return
		}
		all = config.Errors{one}
	}
	lines, known := strings.Split(string(in), "\n"), config.PositionsIn(in)
	for _, e := range all {
		if !strings.HasPrefix(e.File, "f.yaml") || e.Line < 1 || e.Line > len(lines) || ofResult.MatchString(e.Error()) {
			t.Errorf("%v, of\n%s", e, in)
			continue
		}
		field := regexp.MustCompile(`\[\d+\]$`).ReplaceAllString(e.Field, "")
		last := field[strings.LastIndexAny(field, ".")+1:]
		if at, ok := known[e.Field]; ok && at.Line != e.Line || ok && field == e.Field && !strings.Contains(lines[e.Line-1], last) {
			t.Errorf("%v: the line is %q, at %v", e, lines[e.Line-1], at)
		}
	}
	checkNotes(t, notes)
}

func checkNotes(t *testing.T, notes []string) {
	t.Helper()
	for _, n := range notes {
		if regexp.MustCompile(`profiles\[|backends\[|kinds\[`).MatchString(n) {
			t.Errorf("the note %q names a path of the result", n)
		}
	}
}

// eachScalar visits the scalars of a document, except keys.
func eachScalar(n *yaml.Node, visit func(*yaml.Node)) {
	switch n.Kind {
	case yaml.ScalarNode:
		visit(n)
	case yaml.MappingNode:
		for i := 1; i < len(n.Content); i += 2 {
			eachScalar(n.Content[i], visit)
		}
	default:
		for _, item := range n.Content {
			eachScalar(item, visit)
		}
	}
}

// Verifies the same of flags and variables.
func TestErrorsNameFlagsAndVariables(t *testing.T) {
	var variables, flags []string
	for _, o := range options {
		variables, flags = append(variables, o.env...), append(flags, o.flags...)
	}
	const device = "{name: a, groups: [{paths: [{path: /dev/a}]}]}"
	for name, c := range map[string]struct {
		convert    func(Source) ([]byte, []string, error)
		env, flags []string
		source     Source
	}{
		"nvidia":  {NVIDIA, variables, flags, Source{Args: []string{"--device-list-strategy=cdi-annotations"}}},
		"amd":     {AMD, []string{deviceCount}, []string{"pulse", "driver_type", "resource_naming_strategy", "vram"}, Source{}},
		"intel":   {IntelFPGA, []string{"NODE_NAME"}, []string{"mode"}, Source{}},
		"xilinx":  {XilinxFPGA, []string{"VirtualNum", "U30AllocUnit"}, nil, Source{Env: map[string]string{"VirtualDev": "true", "VirtualNum": "2"}}},
		"generic": {Generic, nil, []string{"domain", "device"}, Source{Args: []string{"--device", device}}},
		"sriov":   {SRIOV, nil, []string{"resource-prefix"}, Source{File: []byte("resourceList:\n- resourceName: a\n")}},
	} {
		try := func(which, value string, env map[string]string, args []string) {
			_, notes, err := c.convert(Source{Name: "f.yaml", File: c.source.File, Env: env, Args: args})
			checkNotes(t, notes)
			if err == nil {
				return
			}
			if named := regexp.MustCompile(`^(flag |variable |)(--)?` + regexp.QuoteMeta(which) + `\b`); !named.MatchString(err.Error()) || ofResult.MatchString(err.Error()) {
				t.Errorf("%s: the error of %s with %q is %v", name, which, value, err)
			}
		}
		for _, value := range extremes {
			for _, variable := range c.env {
				env := maps.Clone(c.source.Env)
				if env == nil {
					env = map[string]string{}
				}
				env[variable] = value
				try(variable, value, env, c.source.Args)
			}
			for _, flag := range c.flags {
				try(flag, value, c.source.Env, slices.Concat(c.source.Args, []string{"--" + flag + "=" + value}))
			}
		}
	}
}
