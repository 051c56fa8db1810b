import { choicesOf, flagOf, inputKindOf, type Option } from '../documents/option.ts'
import { InvalidInputError } from '../documents/validation.ts'
import type { CommandDeclaration } from './command-declaration.ts'

/** The words that a shell offers after the command words `at`. */
interface Completed {
  /** The command words so far, separated by spaces; empty for the program alone. */
  readonly at: string
  readonly subcommands: readonly { readonly name: string; readonly summary: string }[]
  readonly flags: readonly CompletedFlag[]
  /** The values of the argument, if the command takes one. */
  readonly operands: readonly string[]
  /** Whether the argument may be a file. */
  readonly takesFile: boolean
}

interface CompletedFlag {
  readonly flag: string
  readonly description: string
  /** The placeholder of the value, such as FILE; undefined for a flag without a value. */
  readonly metavar: string | undefined
  readonly isList: boolean
  readonly value: 'none' | 'words' | 'file' | 'directory' | 'text'
  readonly words: readonly string[]
}

const PROGRAM = 'apiserver-bootstrap'
const help = flagWithout('help', 'show this help')

/** The completion script for bash, zsh or fish. Throws an InvalidInputError for another shell. Pure. */
export function completionScript(shell: string, commands: readonly CommandDeclaration[]): string {
  const script = new Map(Object.entries({ bash, zsh, fish })).get(shell)
  if (script !== undefined) return script(completedOf(commands))
  const message = `must be one of bash, zsh, fish, not ${JSON.stringify(shell)}`
  throw new InvalidInputError([{ where: 'SHELL', message }])
}

function completedOf(commands: readonly CommandDeclaration[]): readonly Completed[] {
  const names = new Set(commands.map(({ path: [name] }) => name))
  const summaryOf = (at: string): string => {
    const found = commands.find(({ path }) => path.join(' ') === at)
    return found?.summary ?? commands.flatMap(({ path: [name, subname] }) => (name === at ? subname : [])).join(', ')
  }
  const top: Completed = {
    at: '',
    subcommands: [...names].map((name) => ({ name, summary: summaryOf(name) })),
    flags: [help, flagWithout('version', 'print the versions of this program and of Node')],
    operands: [],
    takesFile: false,
  }
  const below = [...new Set([...names, ...commands.map(({ path }) => path.join(' '))])].map((at): Completed => {
    const command = commands.find(({ path }) => path.join(' ') === at)
    const options = command?.groups.flatMap((group) => Object.entries(group.options)) ?? []
    return {
      at,
      subcommands: commands.flatMap(({ path: [name, subname], summary }) =>
        name === at && subname !== undefined ? [{ name: subname, summary }] : [],
      ),
      flags: [...options.map(([key, option]) => completedFlag(key, option)), help],
      operands: command?.argument?.values ?? [],
      takesFile: command?.argument?.files === true,
    }
  })
  return [top, ...below]
}

const fileValues: Readonly<Record<string, 'file' | 'directory'>> = { FILE: 'file', DIR: 'directory' }

function completedFlag(key: string, { schema, metavar, description }: Option): CompletedFlag {
  const words = choicesOf(schema) ?? []
  const value = metavar === undefined ? 'none' : words.length > 0 ? 'words' : (fileValues[metavar] ?? 'text')
  return { flag: flagOf(key), description, metavar, isList: inputKindOf(schema) === 'list', value, words }
}

function flagWithout(flag: string, description: string): CompletedFlag {
  return { flag, description, metavar: undefined, isList: false, value: 'none', words: [] }
}

/** The command words up to each command and subcommand, as shell patterns: `' run'`, `'masters evict'`. */
function steps(all: readonly Completed[]): readonly string[] {
  return all.flatMap(({ at, subcommands }) => subcommands.map(({ name }) => `'${at} ${name}'`))
}

function bash(all: readonly Completed[]): string {
  const values = all.flatMap(({ at, flags }) => flags.map((flag) => ({ at, ...flag })))
  const pattern = (kind: CompletedFlag['value']): string =>
    values.flatMap(({ at, flag, value }) => (value === kind ? [`'${at} --${flag}'`] : [])).join(' | ')
  const words = values.flatMap(({ at, flag, value, words }) =>
    value === 'words' ? [`    '${at} --${flag}') kind=words words='${words.join(' ')}' ;;`] : [],
  )
  const places = all.map(({ at, subcommands, flags, operands, takesFile }) => {
    const names = [...subcommands.map(({ name }) => name), ...operands].join(' ')
    const files = takesFile ? ' files=yes' : ''
    return `    '${at}') names='${names}'${files} flags='${flags.map(({ flag }) => `--${flag}`).join(' ')}' ;;`
  })
  return `# Completion of ${PROGRAM} for bash: source <(${PROGRAM} completion bash)
_apiserver_bootstrap() {
  local word=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} at= names= files= flags= kind= words= i
  # --flag=value is three words for bash.
  if [[ $word == '=' ]]; then word=; elif [[ $previous == '=' ]]; then previous=\${COMP_WORDS[COMP_CWORD - 2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
    ${steps(all).join(' | ')}) at="\${at:+$at }\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at" in
${places.join('\n')}
  esac
  case "$at $previous" in
${words.join('\n')}
    ${pattern('file')}) kind=file ;;
    ${pattern('directory')}) kind=directory ;;
    ${pattern('text')}) kind=text ;;
  esac
  [[ -z $kind && $word != -* && -n $files ]] && kind=operand
  case "$kind" in
    words) COMPREPLY=($(compgen -P "\${word%"\${word##*,}"}" -W "$words" -- "\${word##*,}")) ;;
    text) COMPREPLY=() ;;
    operand | file | directory)
      local IFS=$'\\n'
      compopt -o filenames 2> /dev/null
      COMPREPLY=()
      if [[ $kind == operand ]]; then COMPREPLY=($(compgen -W "\${names// /$IFS}" -- "$word")) kind=file; fi
      COMPREPLY+=($(compgen -"\${kind:0:1}" -- "$word"))
      ;;
    *) if [[ $word == -* ]]; then words=$flags; else words=$names; fi
      COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
  esac
}
complete -F _apiserver_bootstrap ${PROGRAM}
`
}

function zsh(all: readonly Completed[]): string {
  const escaped = (text: string): string => text.replaceAll(/[[\]:\\]/g, '\\$&').replaceAll("'", "'\\''")
  const action = ({ value, words, isList, metavar = '' }: CompletedFlag): string => {
    if (value === 'words' && isList) return `_values -s , ${metavar} ${words.join(' ')}`
    return { none: '', text: ' ', words: `(${words.join(' ')})`, file: '_files', directory: '_files -/' }[value]
  }
  const places = all.map(({ at, subcommands, flags, operands, takesFile }) => {
    const names = subcommands.map(({ name, summary }) => `${name}\\:"${escaped(escaped(summary))}"`)
    const words = operands.length === 0 ? ' ' : `(${operands.join(' ')})`
    const operand = takesFile ? `{compadd -- ${operands.join(' ')}; _files}` : words
    const rest = names.length > 0 ? `((${names.join(' ')}))` : operand
    const specs = flags.map((flag) => {
      const value = flag.value === 'none' ? '' : `:${flag.metavar}:${action(flag)}`
      return `'--${flag.flag}${value === '' ? '' : '='}[${escaped(flag.description)}]${value}'`
    })
    return `    ('${at}') _arguments ${[...specs, `'*: :${rest}'`].join(' \\\n      ')} ;;`
  })
  return `#compdef ${PROGRAM}
# Completion of ${PROGRAM} for zsh: source <(${PROGRAM} completion zsh), after compinit
_apiserver_bootstrap() {
  local at= word
  for word in \${words[2,CURRENT-1]}; do
    case "$at $word" in
    (${steps(all).join('|')}) at="\${at:+$at }$word" ;;
    esac
  done
  case $at in
${places.join('\n')}
  esac
}
compdef _apiserver_bootstrap ${PROGRAM}
`
}

function fish(all: readonly Completed[]): string {
  const quoted = (text: string): string => `'${text.replaceAll(/[\\']/g, '\\$&')}'`
  const lines = all.flatMap(({ at, subcommands, flags, operands, takesFile }) => {
    const here = `complete -c ${PROGRAM} -n "__apiserver_bootstrap_at '${at}'"`
    const value = ({ value, words }: CompletedFlag): string =>
      ({
        none: '',
        text: ' -x',
        words: ` -x -a ${quoted(words.join(' '))}`,
        file: ' -r -F',
        directory: ' -x -a "(__fish_complete_directories)"',
      })[value]
    return [
      ...subcommands.map(({ name, summary }) => `${here} -a ${name} -d ${quoted(summary)}`),
      ...(operands.length === 0 ? [] : [`${here}${takesFile ? ' -F' : ''} -a ${quoted(operands.join(' '))}`]),
      ...flags.map((flag) => `${here} -l ${flag.flag}${value(flag)} -d ${quoted(flag.description)}`),
    ]
  })
  return `# Completion of ${PROGRAM} for fish
function __apiserver_bootstrap_at
  set -l at ''
  for word in (commandline -opc)[2..-1]
    if contains -- "$at $word" ${steps(all).join(' ')}
      set at (string trim -- "$at $word")
    end
  end
  test "$at" = "$argv[1]"
end
complete -c ${PROGRAM} -f
${lines.join('\n')}
`
}
