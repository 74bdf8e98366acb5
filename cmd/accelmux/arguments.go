package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/accelmux/accelmux/core/suggestion"
)

// flagError adds to an error of flag parsing the closest known flag and where the flags are
// listed.
func flagError(cmd *cobra.Command, err error) error {
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = suggestion.DidYouMean("--"+unknown.GetSpecifiedName(), names)
	}
	return fmt.Errorf("%w%s; `%s --help` lists the flags", err, hint, cmd.CommandPath())
}

// noArguments refuses arguments: the command has flags only.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %q; `%[1]s --help` lists its flags", cmd.CommandPath(), args[0])
	}
	return nil
}

// oneFile requires exactly one argument, a file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes one file, got %d: `%s`", cmd.CommandPath(), len(args), cmd.UseLine())
	}
	return nil
}
