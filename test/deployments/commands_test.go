package deployments

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commandLines are the commands in a document's blocks and in its code spans, without prompts,
// redirections and what a pipe passes on.
func commandLines(document string) []string {
	const programs = `(?:(?:bin/)?accelmux|helm|make|kubectl)`
	document = fence.ReplaceAllStringFunc(strings.ReplaceAll(document, "\\\n", " "), func(block string) string {
		return strings.ReplaceAll(block, "\n", "\n    ")
	})
	var all []string
	for _, found := range regexp.MustCompile("(?m)^ {4,}(?:\\$ |> )?("+programs+" .*)$").FindAllStringSubmatch(document, -1) {
		all = append(all, found[1])
	}
	for _, found := range regexp.MustCompile("`("+programs+" [^`]+)`").FindAllStringSubmatch(document, -1) {
		all = append(all, found[1])
	}
	for i, line := range all {
		if _, piped, ok := strings.Cut(line, " | accelmux "); ok {
			line = "accelmux " + piped
		}
		if _, inside, ok := strings.Cut(line, " -- accelmux "); ok && strings.HasPrefix(line, "kubectl") {
			line = "accelmux " + inside
		}
		all[i] = regexp.MustCompile(` +([|<>#&]|2>|-> ).*$`).ReplaceAllString(line, "")
	}
	return all
}

// words splits a command as a shell does.
func words(line string) (all []string) {
	for _, word := range regexp.MustCompile(`(?:[^\s'"\\]|\\.|'[^']*'|"[^"]*")+`).FindAllString(line, -1) {
		all = append(all, regexp.MustCompile(`\\(.)|'([^']*)'|"([^"]*)"`).ReplaceAllString(word, "$1$2$3"))
	}
	return all
}

// TestDocumentedCommands verifies for each command that a document shows: the chart accepts
// helm's values, accelmux has the command and its flags, the Makefile has the target, the file
// that kubectl applies exists. Conversions without a file are run, and their output is valid.
func TestDocumentedCommands(t *testing.T) {
	found := map[string]int{}
	for _, document := range documents(t) {
		if strings.HasPrefix(document, "CHANGELOG") { // names what is gone
			continue
		}
		for _, line := range commandLines(string(read(t, document))) {
			args := words(line)
			program := filepath.Base(args[0])
			check := map[string]func(*testing.T, []string) error{"accelmux": checkAccelmux, "helm": checkHelm, "make": checkMake, "kubectl": checkKubectl}[program]
			if err := check(t, args[1:]); err != nil {
				t.Errorf("%s: %s: %v", document, line, err)
			}
			found[program]++
		}
	}
	for program, least := range map[string]int{"accelmux": 100, "helm": 8, "make": 20, "kubectl": 20} {
		if found[program] < least {
			t.Errorf("only %d commands of %s were found in the documents", found[program], program)
		}
	}
	for _, wrong := range []string{"accelmux status --redy", "accelmux convert nvidia", "accelmux statu", "accelmux convert intel-fpga-plugin -- -mode no"} {
		if checkAccelmux(t, words(wrong)[1:]) == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
	if checkMake(t, []string{"no-such"}) == nil || checkKubectl(t, words("apply -f deployments/no-such.yaml")) == nil ||
		checkHelm(t, words("upgrade accelmux deployments/helm/accelmux --values deployments/kind/values.yaml --set imag.tag=x")) == nil {
		t.Error("a wrong target, file or value is accepted")
	}
}

// helps has what commands of accelmux print with --help.
var helps = map[string]string{}

func checkAccelmux(t *testing.T, args []string) error {
	t.Helper()
	commands := []string{}
	for _, arg := range args {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(arg) || len(commands) == 2 {
			break
		}
		commands = append(commands, arg)
	}
	// The last word may be an argument.
	usage := ""
	for ; len(commands) > 0; commands = commands[:len(commands)-1] {
		name := strings.Join(commands, " ")
		if _, ok := helps[name]; !ok {
			helps[name], _ = command(t.Context(), filepath.Join(bin, "accelmux"), append(slices.Clone(commands), "--help")...)
		}
		if regexp.MustCompile(`(?m)^  accelmux ` + name + `( |$)`).MatchString(helps[name]) {
			usage = helps[name]
			break
		}
		if len(commands) == 2 && commands[0] == "convert" {
			return fmt.Errorf("accelmux has no conversion %s", commands[1])
		}
	}
	if usage == "" && !slices.Contains([]string{"--version", "--help"}, slices.Concat(args, []string{""})[0]) {
		return fmt.Errorf("accelmux has no such command")
	}
	own := args
	if i := slices.Index(args, "--"); i >= 0 {
		own = args[:i]
	}
	for _, arg := range own {
		flag, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(arg, "--") && usage != "" && !regexp.MustCompile(`(?m)^ +(-\w, )?`+flag+`\b`).MatchString(usage) {
			return fmt.Errorf("accelmux %s has no flag %s", strings.Join(commands, " "), flag)
		}
	}
	if len(commands) == 2 && commands[0] == "convert" && len(args) > 2 && strings.HasPrefix(args[2], "-") && !slices.ContainsFunc(args, placeholder) {
		out, err := command(t.Context(), filepath.Join(bin, "accelmux"), args...)
		if err == nil {
			_, err = command(t.Context(), filepath.Join(bin, "accelmux"), "validate", write(t, "node.yaml", out))
		}
		return err
	}
	return nil
}

// placeholder reports whether a word stands for others, as NAME=VALUE, FLAGS and [FILE] do.
func placeholder(word string) bool {
	return regexp.MustCompile(`^(\[.*|[A-Z]+|-|NAME=VALUE|.*\.\.\.)$`).MatchString(word)
}

func checkHelm(t *testing.T, args []string) error {
	t.Helper()
	if args[0] != "install" && args[0] != "upgrade" || len(args) < 3 || args[2] != chart {
		return nil
	}
	values := []string{"template", "accelmux", chart, "--kube-version", "1.36.0"}
	for _, arg := range args[3:] {
		switch {
		case arg == "--wait" || arg == "--create-namespace":
		case arg == "--reuse-values": // of the document with kind
			values = append(values, "--values", "deployments/kind/values.yaml")
		case strings.HasPrefix(arg, "config=") && strings.HasSuffix(arg, ".yaml"):
			values = append(values, "config="+filepath.Join(root, "deployments/examples/mock.yaml"))
		default:
			values = append(values, arg)
		}
	}
	_, err := command(t.Context(), helm, append(values, "--api-versions", "resource.k8s.io/v1")...)
	return err
}

func checkMake(t *testing.T, args []string) error {
	t.Helper()
	for i, arg := range args {
		if strings.Contains(arg, "=") || arg == "-C" || i > 0 && args[i-1] == "-C" {
			continue
		}
		if !regexp.MustCompile(`(?m)^([a-z-]+ )*` + regexp.QuoteMeta(arg) + `( [a-z-]+)*:`).Match(read(t, "Makefile")) {
			return fmt.Errorf("the Makefile has no target %s", arg)
		}
	}
	return nil
}

func checkKubectl(t *testing.T, args []string) error {
	t.Helper()
	i := slices.Index(args, "-f")
	if args[0] != "apply" || i < 0 || !strings.Contains(args[i+1], "/") {
		return nil
	}
	_, err := command(t.Context(), "test", "-e", args[i+1])
	return err
}
