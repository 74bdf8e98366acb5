package config

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

// TestParseNameRefuses verifies that a template which is no good is refused with
// what is wrong, whatever the devices are.
func TestParseNameRefuses(t *testing.T) {
	facts := "id, class, numaNode, pciBusID, parent, vendor, backendVersion"
	attribute := "a placeholder must be the name of an attribute, letters, digits and underscores, not starting with a digit, at most 32, is "
	tests := map[string]struct{ name, wantErr string }{
		"two":               {"amd.com/{computePartition}_{memoryPartition}", ""},
		"fact":              {"ex.com/{accelmux.io/class}", ""},
		"as long as can be": {"ex.com/" + strings.Repeat("x", 62) + "{a}", ""},
		"too long":          {"ex.com/" + strings.Repeat("x", 63) + "{a}", "the part after the slash leaves no room for its placeholders: 63 characters beside them, and a name has at most 63"},
		"too many":          {"ex.com/" + strings.Repeat("{a}", 9), "at most 8 placeholders can be in a name, these are 9"},
		"not closed":        {"ex.com/mig-{profile", `the placeholder that begins at "{profile" is not closed by a brace`},
		"not opened":        {"ex.com/profile}-x", `a closing brace without an opening one, at "}-x"; braces are for placeholders only`},
		"empty":             {"ex.com/mig-{}", "an empty placeholder {}: put the name of an attribute into the braces, as in {model}"},
		"no name":           {"ex.com/{my model}", attribute + `"my model"`},
		"unknown fact":      {"ex.com/{accelmux.io/clas}", `no attribute "clas" in the domain "accelmux.io"; did you mean "class"?`},
		"of a backend":      {"ex.com/{mock/model}", `a placeholder is the name of an attribute alone, whatever the backend, or one with its domain, such as resource.kubernetes.io/pcieRoot, or accelmux.io/ and one of ` + facts + `, is "mock/model"`},
		"in the domain":     {"{vendor}.com/gpu", `the domain must be written out: placeholders may be after the slash only, as in example.com/{model}, is "{vendor}.com/gpu"`},
		"empty domain":      {"/{model}", `must be domain/name, such as example.com/{model}, is "/{model}"`},
		"reserved domain":   {"kubernetes.io/{model}", `the domain "kubernetes.io" is reserved: it ends in kubernetes.io`},
		"literal character": {"ex.com/a+{model}", `the part after the slash must be letters, digits, dashes, underscores and dots, beside placeholders, but has "a+"`},
		"dash at the begin": {"ex.com/-{model}", `the part after the slash must have a letter, a digit or a placeholder at both ends, but one is that of "-"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if _, err := ParseName(tc.name); err != nil {
				got = err.Error()
			}
			if got != tc.wantErr {
				t.Errorf("%s: got %q, want %q", tc.name, got, tc.wantErr)
			}
		})
	}
}

// TestNames verifies which names values make.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 60)
	tests := map[string]struct {
		template string
		values   []string
		want     string
		wantErr  string
	}{
		"MIG with media":    {"nvidia.com/mig-{profile}", []string{"1g.10gb+me"}, "nvidia.com/mig-1g.10gb.me", ""},
		"FPGA":              {"amd.com/{vbnv}-{timestamp}", []string{"xilinx_u250:gen3x16", "0x5e278820"}, "amd.com/xilinx_u250-gen3x16-0x5e278820", ""},
		"spaces":            {"ex.com/{model}", []string{"Tesla  T4 (rev a)"}, "ex.com/Tesla-T4-rev-a", ""},
		"other letters":     {"ex.com/{model}", []string{"größer"}, "ex.com/gr-er", ""},
		"ends are cut":      {"ex.com/{model}", []string{"+(a)_"}, "ex.com/a", ""},
		"the end goes, too": {"nvidia.com/mig-{profile}", []string{"+"}, "nvidia.com/mig", ""},
		"nothing is left":   {"ex.com/{a}-{b}", []string{"+", "?"}, "", "would be empty: it must have a letter or a digit (A-Z, a-z, 0-9)"},
		"longest":           {"ex.com/a{b}{c}", []string{long, "bc"}, "ex.com/a" + long + "bc", ""},
		"too long":          {"ex.com/a{b}{c}", []string{long, "bcd"}, "", "would have 64 characters after the slash, at most 63 are allowed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			template, err := ParseName(tc.template)
			if err != nil {
				t.Fatal(err)
			}
			got, err := template.Name(tc.values...)
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if got != tc.want || gotErr != tc.wantErr {
				t.Errorf("%s of %q: %q, error %q; want %q, %q", tc.template, tc.values, got, gotErr, tc.want, tc.wantErr)
			}
			if tc.want != "" && !template.Matches(tc.want) {
				t.Errorf("%s does not match %s", tc.template, tc.want)
			}
		})
	}
}

// TestMatches verifies which names cannot be those of a template.
func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		template, name string
		want           bool
	}{
		{"ex.com/gpu", "ex.com/gpu2", false},
		{"ex.com/mig-{p}", "ex.com/gpu", false},
		{"ex.com/{p}-x", "ex.com/a-y", false},
		{"ex.com/aba{p}aba", "ex.com/aba", false},
		{"ex.com/{p}", "ex.com/anything", true},
		{"ex.com/{p}", "xex.com/anything", false},
	} {
		template, err := ParseName(tc.template)
		if err != nil {
			t.Fatal(err)
		}
		if got := template.Matches(tc.name); got != tc.want {
			t.Errorf("%s matches %s: %v, want %v", tc.template, tc.name, got, tc.want)
		}
	}
}

// TestNameProperty verifies that any values make a name that Kubernetes takes, and
// that the template knows again, or an error.
func TestNameProperty(t *testing.T) {
	literal := rapid.StringMatching(`[a-zA-Z0-9]([a-zA-Z0-9._-]{0,4}[a-zA-Z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		text, placeholders := "ex.com/", 0
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			if rapid.Bool().Draw(t, "placeholder") {
				text, placeholders = text+"{a}", placeholders+1
			} else {
				text += literal.Draw(t, "literal")
			}
		}
		template, err := ParseName(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(template.Placeholders()) != placeholders {
			t.Fatalf("%s has the placeholders %v", text, template.Placeholders())
		}
		checkName(t, template, rapid.SliceOfN(anyText(), placeholders, placeholders).Draw(t, "values"))
	})
}

// anyText is any string, also such that is not UTF-8, often with what a name may have.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9+._ -]{0,70}`),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
}

func checkName(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, template *NameTemplate, values []string,
) {
	t.Helper()
	name, err := template.Name(values...)
	if err != nil {
		if name != "" {
			t.Fatalf("%q and the name %q", err, name)
		}
		return
	}
	if problems := validation.IsQualifiedName(name); len(problems) > 0 {
		t.Fatalf("%q of %q: %v", name, values, problems)
	}
	if err := checkResourceName(name); err != nil {
		t.Fatalf("%q of %q: %v", name, values, err)
	}
	if !template.Matches(name) {
		t.Fatalf("%q of %q is not known again", name, values)
	}
}
