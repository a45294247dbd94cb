#!/bin/sh
# A subagent in plain shell that is spoken with while it runs, by the protocol of docs/lines.md. It answers prompts about
# the repository it stands in, asks before it runs a command, and takes messages. Try it:
#
#   subagent run --warm --talk "who wrote this?" -- sh examples/reviewer.sh

say() { printf '%s\n' "$1"; }
# The value of a field of a JSON line; enough for the lines that subagent writes.
field() { printf '%s' "$line" | sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }
# Text as the inside of a JSON string.
quoted() { sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' | tr '\t\n' '  '; }
answer() { say "{\"type\":\"done\",\"answer\":\"$(printf '%s' "$1" | quoted)\"}"; }

say '{"type":"hello","version":1,"session":"reviewer","can":["steer","interrupt","took"]}'
say '{"type":"ready"}'
task=
while read -r line; do
    case $line in
        *'"type":"prompt"'*)
            task=$(field text)
            number=$(field number)
            [ -n "$number" ] && say "{\"type\":\"took\",\"number\":$number}"
            case $task in
                *who*)
                    say '{"type":"ask","key":"shortlog","action":"execute","title":"git shortlog -sn HEAD","options":[{"id":"yes","name":"Yes","kind":"allow_once"},{"id":"no","name":"No","kind":"deny_once"}]}'
                    ;;
                *) answer "You said: $task" ;;
            esac
            ;;
        *'"type":"answer"'*)
            case $(field answer) in
                allow*) answer "$(git shortlog -sn HEAD </dev/null | head -3)" ;;
                *) answer "I was not allowed to look." ;;
            esac
            ;;
        *'"type":"steer"'*)
            say "{\"type\":\"took\",\"number\":$(field number)}"
            say "{\"type\":\"message\",\"text\":\"I will mind that: $(field text | quoted)\"}"
            ;;
        *'"type":"interrupt"'*) say '{"type":"cancelled"}' ;;
        *'"type":"close"'*) exit 0 ;;
    esac
done
