import { type Html, html, type Part } from './html.ts'

export interface Column {
  readonly name: Part
  /** Numbers stand to the right. */
  readonly numbers?: boolean
}

/** A cell that is not just its text. */
export interface Cell {
  readonly text: Part
  readonly broken?: boolean
}

/** Rows that belong together; the first cell of each is its header. */
export interface Group {
  readonly name?: Part
  readonly rows: readonly (readonly (Part | Cell)[])[]
}

/**
 * A table with a caption and headers of columns and rows, in a region of its own that scrolls by keyboard where the page is narrow.
 * `label` says in words what the region is; it must differ from those of other tables.
 */
export function table(options: {
  readonly label: string
  readonly caption: Part
  readonly columns: readonly Column[]
  readonly groups: readonly Group[]
  readonly tall?: boolean
}): Html {
  const { label, caption, columns, groups, tall = false } = options
  const classOf = (index: number): Html | undefined => (columns[index]?.numbers === true ? html` class="n"` : undefined)
  // End tags that HTML lets one leave out are left out: there may be thousands of rows.
  const cell = (content: Part | Cell, index: number): Html => {
    const { text, broken = false } = isCell(content) ? content : { text: content }
    if (index === 0) return html`<th scope="row">${text}`
    return html`<td${classOf(index)}>${broken ? html`<span class="broken">${text}</span>` : text}`
  }
  const group = ({ name, rows }: Group): Html => html`<tbody>
${name === undefined ? undefined : html`<tr><th scope="rowgroup" colspan="${columns.length}">${name}\n`}${rows.map((cells) => html`<tr>${cells.map(cell)}\n`)}`
  return html`<div class="scroll${tall ? ' tall' : ''}" role="region" aria-label="${label}" tabindex="0"><table>
<caption><span class="said">${caption}</span></caption>
<thead><tr>${columns.map(({ name }, index) => html`<th scope="col"${classOf(index)}>${name}`)}
${groups.map(group)}</table></div>
`
}

function isCell(content: Part | Cell): content is Cell {
  return typeof content === 'object' && 'text' in content
}
