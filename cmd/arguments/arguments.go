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

// FlagError adds to an error of flag parsing the closest known flag and where the flags are
// listed, and says what the value of a flag must be.
func FlagError(cmd *cobra.Command, err error) error {
	hint := ""
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if wanted := wanted[invalid.GetFlag().Value.Type()]; wanted != "" {
			err = fmt.Errorf("--%s must be %s, is %q", invalid.GetFlag().Name, wanted, invalid.GetValue())
		}
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = suggestion.DidYouMean("--"+unknown.GetSpecifiedName(), names)
	}
	return fmt.Errorf("%w%s; `%s --help` lists the flags", err, hint, cmd.CommandPath())
}

// wanted are the values of flags, by their types.
var wanted = map[string]string{
	"int": "a whole number", "int32": "a whole number", "int64": "a whole number", "uint": "a whole number", "uint32": "a whole number",
	"uint64": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a duration such as 30s or 1m30s",
}

// CheckCommand returns an error if the arguments of a program name a command that it does not have.
func CheckCommand(root *cobra.Command, args []string) error {
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

// Exactly requires n arguments.
func Exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("unexpected argument %q: `%s`", args[n], cmd.UseLine())
		}
		return AtLeast(n)(cmd, args)
	}
}
