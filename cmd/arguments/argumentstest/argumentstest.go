// Package argumentstest verifies for whole programs what people see who use their commands wrongly.
package argumentstest

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/accelmux/accelmux/cmd/arguments"
)

// foreign are words of the libraries that parse command lines, which are not for people.
var foreign = []string{"strconv", "pflag", "invalid syntax", "invalid argument", "arg(s)", "flag(s)", "formatted as", "shorthand", "in the group", " for \"", "%!"}

// Check verifies for each command of a program, and each of its flags, that wrong commands, arguments, flags and values are
// refused in plain words, with a suggestion, a list or a command that shows what is right; and so is the path of a directory or
// file that does not exist, but for those that a command makes or reports, which are others: commands ("run"), flags
// ("--run-dir"), or a flag of a command ("doctor --config"). No command runs.
func Check(t *testing.T, newRoot func() *cobra.Command, others ...string) {
	t.Helper()
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	commands := 0
	visit(root, nil, func(c *cobra.Command, path []string) {
		commands++
		program := program{t, newRoot, c.CommandPath()}
		help := "`" + strings.Join(append([]string{root.CommandPath()}, path...), " ") + " --help` lists"
		if c.HasAvailableSubCommands() {
			program.refuses("", append(path, "no-such-command")...)
		}
		program.refuses(help, append(path, "--no-such-flag")...)
		program.refuses(help, append(path, "-Z")...)
		if four := []string{"a/b", "c/d", "e/f", "g/h"}; c.Args != nil && c.Args(c, four) != nil {
			program.refuses("", append(path, four...)...)
		}
		if c.Args != nil && c.Args(c, nil) != nil {
			program.refuses("", path...)
		}
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			flag := "--" + f.Name
			switch f.Value.Type() {
			case "string", "stringArray", "stringSlice":
			default:
				if f.Value.Type() == "stringToString" {
					program.refuses(flag+" must be ", append(path, flag+"=abc")...)
				}
				program.refuses(help, append(path, flag+"=abc")...)
			}
			if what, _ := pflag.UnquoteUsage(f); c.Runnable() && slices.Contains([]string{"dir", "file", "FILE"}, what) {
				checkPath(program, c, f, path, others)
			}
			if f.NoOptDefVal == "" {
				program.refuses(help, append(path, flag)...)
				if f.Shorthand != "" {
					program.refuses(flag+" needs a value", append(path, "-"+f.Shorthand)...)
				}
			}
		})
	})
	if commands < 5 {
		t.Errorf("only %d commands were found", commands)
	}
	// What shells ask for completion.
	for _, right := range []string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd} {
		if err := arguments.CheckCommand(newRoot(), []string{right, ""}); err != nil {
			t.Errorf("%s: %v", right, err)
		}
	}
}

// checkPath verifies that a flag refuses a path that does not exist, or is one of others.
func checkPath(p program, c *cobra.Command, f *pflag.Flag, path, others []string) {
	command := strings.Join(path, " ")
	for _, other := range []string{command, "--" + f.Name, command + " --" + f.Name} {
		if slices.Contains(others, other) {
			return
		}
	}
	var arguments []string
	for c.Args != nil && len(arguments) < 3 && c.Args(c, arguments) != nil {
		arguments = append(arguments, "argument")
	}
	args := slices.Concat(path, []string{"--" + f.Name + "=no-such-path"}, arguments)
	p.refuses("): no-such-path does not exist; `", args...)
}

// visit calls each for a command and all below it, but for cobra's own scripts.
func visit(c *cobra.Command, path []string, each func(*cobra.Command, []string)) {
	each(c, path)
	for _, s := range c.Commands() {
		visit(s, append(append([]string{}, path...), s.Name()), each)
	}
}

// program is a program under test, at one of its commands.
type program struct {
	*testing.T
	newRoot func() *cobra.Command
	path    string
}

// refuses verifies that the program refuses arguments, with a message that has want and points to what is right.
func (p program) refuses(want string, args ...string) {
	p.Helper()
	root := p.newRoot()
	visit(root, nil, func(c *cobra.Command, _ []string) {
		if c.Runnable() && c.Name() != "help" {
			c.Run, c.RunE = nil, func(*cobra.Command, []string) error { return nil }
		}
	})
	root.SetOut(p.Output())
	root.SetErr(p.Output())
	root.SetArgs(args)
	err := arguments.CheckCommand(root, args)
	if err == nil {
		err = root.Execute()
	}
	if err == nil {
		p.Errorf("%q is accepted", args)
		return
	}
	message := err.Error()
	for _, word := range foreign {
		if strings.Contains(message, word) {
			p.Errorf("%q: %s: %q is not for people", args, message, word)
		}
	}
	if !strings.Contains(message, want) || !strings.Contains(message, "`"+root.CommandPath()) && !strings.Contains(message, "; ") {
		p.Errorf("%q: %s; want %s, and what is right", args, message, want)
	}
}
