import { expect, test } from 'vitest'
import { found, placeOfId } from './search'

test('the start of a name counts most, then the start of a word', () => {
  const names = ['http.get', 'files.get', 'getter', 'budget', 'other']
  expect(found(names, 'get', name => name, 10)).toEqual(['getter', 'http.get', 'files.get', 'budget'])
  expect(found(names, 'fi get', name => name, 10)).toEqual(['files.get'])
  expect(found(names, '', name => name, 2)).toEqual(['http.get', 'files.get'])
})

test('a pasted id leads to its page', () => {
  for (const [id, place] of [
    [' inv_01m7 ', '/?call=inv_01m7'],
    ['rcp_01m7', '/receipts/rcp_01m7'],
    ['grt_01m7', '/policies/grants/grt_01m7'],
    ['ses_01m7', '/policies/sessions/ses_01m7'],
    ['spc_01m7', '/policies/spaces/spc_01m7'],
    ['sec_01m7', '/secrets?secret=sec_01m7'],
    ['con_01m7', '/secrets?connection=con_01m7'],
    ['aut_01m7', '/automations/aut_01m7'],
    ['drf_01m7', '/automations/drafts/drf_01m7'],
    ['run_01m7', '/runs/run_01m7'],
    ['art_01m7', '/artifacts?artifact=art_01m7'],
    ['evt_01m7', '/events?event=evt_01m7'],
    ['dlt_01m7', '/events?tab=dead&letter=dlt_01m7'],
    ['dlv_01m7', '/events?tab=dead&letter=dlv_01m7'],
    ['usr_01m7', '/settings?q=usr_01m7'],
    ['tok_01m7', '/settings?tab=tokens&ended=true&q=tok_01m7'],
    ['chn_01m7', '/settings?tab=channels&channel=chn_01m7'],
    ['ntf_01m7', '/notifications?notification=ntf_01m7'],
    ['cns_01m7', '/policies/consents?consent=cns_01m7'],
  ] as const)
    expect(placeOfId(id)).toBe(place)
  for (const none of ['inv_"><script>', 'org_01m7', 'inv', 'constructor_01m7']) expect(placeOfId(none)).toBeUndefined()
})
