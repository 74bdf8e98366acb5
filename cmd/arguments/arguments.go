// Package arguments refuses wrong arguments and flags of the commands, with what would be right.
package arguments

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/accelmux/accelmux/core/suggestion"
)

// FlagError says in plain words what is wrong with a flag, with the closest known one, and where the flags are listed.
func FlagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	message := err.Error()
	switch {
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		must := wanted[flag.Value.Type()]
		if must == "" {
			must, _ = pflag.UnquoteUsage(flag)
		}
		message = fmt.Sprintf("--%s must be %s, is %q", flag.Name, must, invalid.GetValue())
	case errors.As(err, &missing):
		message = fmt.Sprintf("--%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &unknown):
		got := "-" + unknown.GetSpecifiedShortnames()
		if got == "-" {
			got = "--" + unknown.GetSpecifiedName()
		}
		message = "unknown flag: " + got + flagLike(cmd, strings.TrimLeft(got, "-"))
	}
	return fmt.Errorf("%s; `%s --help` lists the flags", message, cmd.CommandPath())
}

// flagLike suggests the flag whose name is close to an unknown one, or the only one that contains it.
func flagLike(cmd *cobra.Command, got string) string {
	var names, containing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if len(got) >= minPart && strings.Contains(f.Name, got) {
			containing = append(containing, f.Name)
		}
	})
	near := suggestion.Closest(got, names)
	if near == "" && len(containing) == 1 {
		near = containing[0]
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", "--"+near)
}

// minPart is the least length of a part of a flag's name by which it is found, in bytes.
const minPart = 3

// wanted are the values of flags, by their types. Those of others are in the flag's usage.
var wanted = map[string]string{
	"int": "a whole number", "int32": "a whole number", "int64": "a whole number", "uint": "a whole number", "uint32": "a whole number",
	"uint64": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a duration such as 30s or 1m30s",
}

// Strict makes a program that has all its commands refuse wrong flags, and its commands help and completion wrong
// arguments.
func Strict(root *cobra.Command) {
	root.SetFlagErrorFunc(FlagError)
	root.PersistentPreRunE = checkSet
	// cobra's own "completion" prints its help, into the file that was meant for the script.
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		cmd.Args = func(cmd *cobra.Command, args []string) error { return Commands(cmd, "shell", args) }
		for _, shell := range cmd.Commands() {
			shell.Args = None
		}
	}
	// cobra's own "help" succeeds for an unknown command.
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Run = nil
		help.RunE = func(_ *cobra.Command, args []string) error {
			if err := CheckCommand(root, args); err != nil {
				return err
			}
			cmd, _, err := root.Find(args)
			if err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag()
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		}
	}
}

// CheckCommand returns an error if the arguments of a program name a command that it does not have.
func CheckCommand(root *cobra.Command, args []string) error {
	// What the scripts of completion call, which cobra adds when it runs the program.
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		return nil
	}
	parent, _, err := root.Find(args)
	if err == nil {
		return nil
	}
	quoted, unquotable := strconv.QuotedPrefix(strings.TrimPrefix(err.Error(), "unknown command "))
	name, badlyQuoted := strconv.Unquote(quoted)
	if unquotable != nil || badlyQuoted != nil {
		return err
	}
	var names []string
	for _, command := range parent.Commands() {
		if command.IsAvailableCommand() {
			names = append(names, command.Name())
		}
	}
	return fmt.Errorf("unknown command %q%s; `%s --help` lists the commands", name, suggestion.DidYouMean(name, names), parent.CommandPath())
}

// None refuses arguments: the command has flags only.
func None(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %q; `%[1]s --help` lists its flags", cmd.CommandPath(), args[0])
	}
	return nil
}

// OneFile requires exactly one argument, a file.
func OneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes one file, got %d: `%s`", cmd.CommandPath(), len(args), cmd.UseLine())
	}
	return nil
}

// AtLeast requires n arguments or more.
func AtLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return fmt.Errorf("an argument is missing: `%s`", cmd.UseLine())
		}
		return nil
	}
}

// AtMost refuses more than n arguments.
func AtMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("unexpected argument %q: `%s`", args[n], cmd.UseLine())
		}
		return nil
	}
}

// Exactly requires n arguments.
func Exactly(n int) cobra.PositionalArgs { return cobra.MatchAll(AtMost(n), AtLeast(n)) }

// Commands refuses an argument that is not one of the commands below cmd, which are what.
func Commands(cmd *cobra.Command, what string, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, command := range cmd.Commands() {
		names = append(names, command.Name())
	}
	return fmt.Errorf("%s: %q is not a %s%s", cmd.CommandPath(), args[0], what, suggestion.OrAll(args[0], "the "+what+"s are", names))
}
