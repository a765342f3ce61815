// explanations: print what pure modules of the web view return. Run: node explanations.mjs FOLDER < QUESTION

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = name => import(pathToFileURL(`${process.argv[2]}/js/${name}.js`).href);
const { verifyHistory, indent } = await load("verify");
const { draftOf, outcome, planForm } = await load("schema_form");
const { changedLimits, whyNot } = await load("controls");
const { receiptLines } = await load("receipt");
const { decisionIn } = await load("call_actions");
const { rangesOf } = await load("inspector");

const OPERATIONS = {
  verify: pages => verifyHistory("t", () => {}, async path => pages[Number(/start=(\d+)/.exec(path)[1])]),
  indent,
  plan: schema => planForm(schema),
  form: ({ schema, value }) => {
    const field = planForm(schema);
    const draft = draftOf(field, value);
    return { draft, ...outcome(field, draft) };
  },
  read: ({ schema, draft }) => outcome(planForm(schema), draft),
  limits: ({ now, wanted }) => changedLimits(now, wanted),
  whyNot: ({ action, status, scopes }) => whyNot(action, status, scope => scopes.includes(scope)),
  receipt: receiptLines,
  decision: ({ step, call }) => decisionIn(step, call),
  ranges: rangesOf,
};

const answers = [];
for (const [name, question] of JSON.parse(readFileSync(0, "utf8"))) answers.push((await OPERATIONS[name](question)) ?? null);
console.log(JSON.stringify(answers));
